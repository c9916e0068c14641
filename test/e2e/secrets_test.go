//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/gen"
)

// secretVolume mounts a Secret.
func secretVolume(source string) deploymentOption {
	return func(d *appsv1.Deployment) {
		spec := &d.Spec.Template.Spec
		ref := sourceRef{kind: pin.Secret, name: source}
		spec.Volumes = append(spec.Volumes, ref.volume(fmt.Sprintf("v%d", len(spec.Volumes))))
	}
}

// waitSecretPinned waits until a Deployment has rolled out another revision of a Secret than before, and returns that. A pin alone is not
// enough: what is replaced before its controller has seen it leaves no history.
func (w *world) waitSecretPinned(deployment, source string, before pin.Pin) (p pin.Pin, revision *corev1.Secret) {
	w.Helper()
	w.Eventually("secret/"+source+" pinned", func() string {
		if p = w.Pins(deployment)[pin.Source{Kind: pin.Secret, Name: source}]; p == before {
			return "pinned to " + p.String()
		}
		return w.NotRolledOut(deployment)
	})
	revision = &corev1.Secret{}
	w.Must(w.Get(p.Revision, revision))
	return p, revision
}

func TestRevisionsOfSecretsKeepTypeAndData(t *testing.T) {
	t.Parallel()
	certificate, key := selfSigned(t)
	tests := map[string]struct {
		kind corev1.SecretType
		data map[string]string
	}{
		"opaque": {corev1.SecretTypeOpaque, map[string]string{"password": "p\x00\xff", "empty": ""}},
		"own":    {"example.com/own", map[string]string{"anything": "x"}},
		"none":   {corev1.SecretTypeOpaque, nil},
		"tls":    {corev1.SecretTypeTLS, map[string]string{"tls.crt": certificate, "tls.key": key}},
		"docker": {corev1.SecretTypeDockerConfigJson, map[string]string{".dockerconfigjson": `{"auths":{"example.com":{"auth":"dTpw"}}}`}},
		"basic":  {corev1.SecretTypeBasicAuth, map[string]string{"username": "u", "password": "p"}},
		"ssh":    {corev1.SecretTypeSSHAuth, map[string]string{"ssh-privatekey": "k"}},
	}
	w := newWorld(t)
	d := deployment("web")
	for name, tt := range tests {
		source := secret(name, tt.kind)
		// Certificates rotate otherwise.
		source.Annotations = map[string]string{keys.Policy: "revision"}
		source.Data = map[string][]byte{}
		for key, value := range tt.data {
			source.Data[key] = []byte(value)
		}
		w.Create(source)
		secretVolume(name)(d)
	}
	w.Create(d)
	for name, tt := range tests {
		source := &corev1.Secret{}
		w.Must(w.Get(name, source))
		_, revision := w.waitSecretPinned("web", name, pin.Pin{})
		if revision.Type != tt.kind || revision.Immutable == nil || !*revision.Immutable {
			t.Errorf("%s: the revision has type %s, immutable %v", name, revision.Type, revision.Immutable)
		}
		if diff := cmp.Diff(source.Data, revision.Data); diff != "" {
			t.Errorf("%s (-source +revision):\n%s", name, diff)
		}
	}
	// What a user writes as stringData is data to the API server, and a change.
	before, _ := w.waitSecretPinned("web", "opaque", pin.Pin{})
	w.EditSecret("opaque", "password", "another")
	if _, revision := w.waitSecretPinned("web", "opaque", before); string(revision.Data["password"]) != "another" {
		t.Errorf("the revision has %q", revision.Data)
	}
}

func selfSigned(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, data []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}))
	}
	return block("CERTIFICATE", signed), block("EC PRIVATE KEY", encoded)
}

// tooBig makes a Secret that etcd just takes, so that nothing is left for what a revision has in addition to its data.
func (w *world) tooBig(name, value string) {
	w.Helper()
	source := func(name string, padding int) *corev1.Secret {
		obj := secret(name, corev1.SecretTypeOpaque, "value", value, "padding", strings.Repeat("x", padding))
		// Names of keys do not count as data, but etcd must take them too, each twice: they are in managedFields as well.
		for i := range 2200 {
			obj.StringData[fmt.Sprintf("%0253d", i)] = ""
		}
		obj.Namespace = w.NS
		return obj
	}
	const step = 256
	fits, bursts := 0, 1<<20
	for bursts-fits > step {
		trial := source(name, (fits+bursts)/2)
		if err := cluster.Client.Create(w.Ctx, trial); err != nil {
			if !strings.Contains(err.Error(), "too large") {
				w.Fatal(err)
			}
			bursts = (fits + bursts) / 2
			continue
		}
		fits = (fits + bursts) / 2
		w.Must(cluster.Client.Delete(w.Ctx, trial))
	}
	w.Must(cluster.Client.Create(w.Ctx, source(name, fits)))
}

// Data of Secrets is in the objects that users keep it in and in their revisions, and nowhere else.
func TestDataOfSecretsIsNeverDisclosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var values []string
	value := func(what string) string {
		values = append(values, "hunter2-"+what+"-"+w.NS)
		return values[len(values)-1]
	}
	// Pinned, changed, rolled back.
	w.Create(secret("web", corev1.SecretTypeOpaque, "k", value("first")), deployment("web", secretVolume("web")))
	first, _ := w.waitSecretPinned("web", "web", pin.Pin{})
	w.EditSecret("web", "k", value("second"))
	_, second := w.waitSecretPinned("web", "web", first)
	w.Undo("web")
	w.WaitEvent("Held", "web", "staying on revision "+first.String())
	// Lost while in use: the content is not the source's any more.
	w.unguarded("delete", "secret", first.Revision)
	w.WaitEvent("RevisionMissing", "web", first.Revision)
	w.unguarded("delete", "secret", second.Name)

	w.tooBig("big", value("big"))
	w.Create(deployment("big", secretVolume("big")))
	w.WaitEvent("TooBig", "big", "secret/big")

	w.quota("few", "count/secrets=1")
	w.EditSecret("web", "k", value("third"))
	w.WaitEvent("RevisionRefused", "web", "exceeded quota")

	log, err := os.ReadFile(confrev.Log)
	w.Must(err)
	if !strings.Contains(string(log), w.NS) {
		t.Fatal("the log says nothing of all this")
	}
	told := &eventsv1.EventList{}
	w.Must(cluster.Client.List(w.Ctx, told))
	events, err := json.Marshal(told.Items)
	w.Must(err)
	deployments := w.Kubectl("get", "deployments,replicasets,pods,configmaps", "-o", "json")
	metrics, err := confrev.ReadMetrics(w.Ctx)
	w.Must(err)
	for place, text := range map[string]string{
		"the log": string(log), "events": string(events), "other objects": deployments, "metrics": fmt.Sprint(metrics),
	} {
		for _, value := range values {
			for _, form := range []string{value, base64.StdEncoding.EncodeToString([]byte(value))} {
				if at := strings.Index(text, form); at >= 0 {
					t.Errorf("%s: %s", place, text[max(0, at-200):min(len(text), at+len(form)+50)])
				}
			}
		}
	}
}

// Rule 10.
func TestWhatIsNeverCopied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lock := configMap("lock", "k", "v")
	lock.Annotations = map[string]string{"control-plane.alpha.kubernetes.io/leader": `{"holderIdentity":"x"}`}
	token := secret("token", corev1.SecretTypeServiceAccountToken)
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	release := secret("release", "helm.sh/release.v1", "release", "x")
	// A token of an account that is not there yet is deleted.
	w.Eventually("the account is there", func() string { return errorText(w.Get("default", &corev1.ServiceAccount{})) })
	w.Create(lock, token, release, configMap("web", "k", "v"))
	d := func(name, track string) *appsv1.Deployment {
		return deployment(name, gen.Tracking(track), envFrom("lock", "web"), secretVolume("token"), secretVolume("release"))
	}
	w.Create(d("listed", "configmap/lock,configmap/web,secret/token,secret/release"), d("all", "all"))
	for _, name := range []string{"listed", "all"} {
		w.WaitPinned(name, "web", "k", "v") // they do not stop the rest
	}
	for what, why := range map[string]string{
		"configmap/lock": "leader election", "secret/token": "token of a service account", "secret/release": "Helm's record",
	} {
		w.WaitEvent("NeverCopied", "listed", what+" is not followed: it is")
		w.WaitEvent("NeverCopied", "listed", why)
	}
	w.Barrier()
	for _, name := range []string{"listed", "all"} {
		if got := w.Pins(name).Sources(); len(got) != 1 {
			t.Errorf("%s is pinned to %v, want configmap/web only", name, got)
		}
	}
}
