//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// certificate makes a TLS Secret. The API server wants its keys, and does not look at their values.
func certificate(name, value string) *corev1.Secret {
	return secret(name, corev1.SecretTypeTLS, "tls.crt", value, "tls.key", "k")
}

func (w *world) rotate(name, value string) {
	w.Helper()
	w.EditSecret(name, "tls.crt", value)
}

func (w *world) image(deployment, image string) {
	w.Helper()
	w.Kubectl("set", "image", "deployment/"+deployment, "app="+image)
}

// waitRotated waits until a Deployment has rolled out for a rotation, and returns the hashes of its template.
func (w *world) waitRotated(deployment, source, before string) string {
	w.Helper()
	w.waitRestarted(deployment, "secret/"+source, before)
	return w.hashes(deployment)
}

// notPinned complains about a pin of a Secret.
func (w *world) notPinned(deployment, source string) {
	w.Helper()
	if p, pinned := w.Pins(deployment)[pin.Source{Kind: pin.Secret, Name: source}]; pinned {
		w.Errorf("secret/%s is pinned to %s", source, p)
	}
}

// stays fails if a Deployment's template changes until all that happened before is dealt with.
func (w *world) stays(deployment, why string) {
	w.Helper()
	before := w.Deployment(deployment).Spec.Template
	w.Barrier()
	if diff := cmp.Diff(before, w.Deployment(deployment).Spec.Template); diff != "" {
		w.Errorf("%s: the template changed (-before +after):\n%s", why, diff)
	}
}

// Policy rotate: what rotates by itself, and by what.
func TestWhatRotates(t *testing.T) {
	t.Parallel()
	owned := func(apiVersion, kind string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "x", UID: "6f3b5a0e-0000-0000-0000-000000000000"}}
	}
	label := func(key, value string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Labels: map[string]string{key: value}}
	}
	note := func(key, value string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Annotations: map[string]string{key: value}}
	}
	tests := map[string]struct {
		meta    metav1.ObjectMeta
		tls     bool
		bundle  bool // a ConfigMap
		rotates bool
	}{
		"opaque":         {},
		"tls":            {tls: true, rotates: true},
		"tls-revision":   {tls: true, meta: note(keys.Policy, "revision")},
		"rotate":         {meta: note(keys.Policy, "rotate"), rotates: true},
		"cert-manager":   {meta: note("cert-manager.io/certificate-name", "web"), rotates: true},
		"csi":            {meta: label("secrets-store.csi.k8s.io/managed", "true"), rotates: true},
		"dynamic":        {meta: metav1.ObjectMeta{OwnerReferences: owned("secrets.hashicorp.com/v1beta1", "VaultDynamicSecret")}, rotates: true},
		"pki":            {meta: metav1.ObjectMeta{OwnerReferences: owned("secrets.hashicorp.com/v1beta1", "VaultPKISecret")}, rotates: true},
		"not-vaults":     {meta: metav1.ObjectMeta{OwnerReferences: owned("example.com/v1", "VaultPKISecret")}},
		"static":         {meta: label("secrets.hashicorp.com/vso-ownerRefUID", "x"), rotates: true},
		"eso":            {meta: label("reconcile.external-secrets.io/managed", "true"), rotates: true},
		"eso-revision":   {meta: metav1.ObjectMeta{Labels: label("reconcile.external-secrets.io/managed", "true").Labels, Annotations: note(keys.Policy, "revision").Annotations}},
		"reflected":      {meta: note("reflector.v1.k8s.emberstack.com/reflects", "other/db")},
		"sealed":         {meta: metav1.ObjectMeta{OwnerReferences: owned("bitnami.com/v1alpha1", "SealedSecret")}},
		"sealed-tls":     {tls: true, meta: metav1.ObjectMeta{OwnerReferences: owned("bitnami.com/v1alpha1", "SealedSecret")}},
		"bundle":         {bundle: true, meta: label("trust.cert-manager.io/bundle", "x"), rotates: true},
		"plain":          {bundle: true},
		"rotated-config": {bundle: true, meta: note(keys.Policy, "rotate"), rotates: true},
	}
	w := newWorld(t)
	d := deployment("web")
	for name, tt := range tests {
		var source client.Object = secret(name, corev1.SecretTypeOpaque, "password", "A")
		switch {
		case tt.tls:
			source = certificate(name, "A")
		case tt.bundle:
			source = configMap(name, "ca.crt", "A")
		}
		source.SetLabels(tt.meta.Labels)
		source.SetAnnotations(tt.meta.Annotations)
		source.SetOwnerReferences(tt.meta.OwnerReferences)
		w.Create(source)
		if tt.bundle {
			envFrom(name)(d)
			continue
		}
		secretVolume(name)(d)
	}
	w.Create(d)
	for name, tt := range tests {
		source := pin.Source{Kind: pin.Secret, Name: name}
		if tt.bundle {
			source.Kind = pin.ConfigMap
		}
		w.Eventually(name+" is followed", func() string {
			d := w.Deployment("web")
			noted, pinned := strings.Contains(d.Annotations[keys.Hashes], source.String()+"="), strings.Contains(w.PinsText("web"), source.String()+"=")
			if noted != tt.rotates || pinned == tt.rotates {
				return fmt.Sprintf("noted: %v, pinned: %v", noted, pinned)
			}
			return ""
		})
	}
	w.stays("web", "a first look at what rotates")
}

// Policy rotate: one rollout for each change, and an undo that brings nothing of the credential back, and holds nothing.
func TestARotatedCredentialIsNeverBroughtBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(certificate("cert", "A"), configMap("web", "color", "A"), deployment("web", secretVolume("cert"), envFrom("web")))
	w.WaitPinned("web", "web", "color", "A")
	w.waitFollowed("web", "secret/cert")
	w.notPinned("web", "cert")

	w.rotate("cert", "B")
	second := w.waitRotated("web", "cert", "")
	w.WaitEvent("Restarted", "web", "secret/cert was rotated")
	w.image("web", "app:2")
	w.Eventually("the image is rolled out", func() string { return w.NotRolledOut("web") })
	w.rotate("cert", "C")
	third := w.waitRotated("web", "cert", second)
	if got := len(w.ReplicaSets("web")); got != 4 {
		t.Errorf("%d ReplicaSets, want one of the creation, two of rotations and one of the image", got)
	}
	generation := w.Deployment("web").Generation
	w.Undo("web", "--to-revision=1")
	w.Barrier()
	d := w.Deployment("web")
	if d.Spec.Template.Spec.Containers[0].Image != "app:1" || d.Generation != generation+1 || w.hashes("web") != third {
		t.Errorf("the undo: %s, generation %d after %d, hashes %s, want %s", d.Spec.Template.Spec.Containers[0].Image, d.Generation, generation, w.hashes("web"), third)
	}
	if d.Annotations[keys.HeldHashes]+d.Annotations[keys.Held] != "" {
		t.Errorf("the undo holds: %s %s", d.Annotations[keys.Held], d.Annotations[keys.HeldHashes])
	}
	// Where nothing but the credential differs, there is nothing to go back to.
	w.rotate("cert", "D")
	fourth := w.waitRotated("web", "cert", third)
	generation = w.Deployment("web").Generation
	w.Undo("web")
	w.Barrier()
	if got := w.hashes("web"); got != fourth || w.Deployment("web").Generation != generation {
		t.Errorf("undo of a rotation: hashes %s, want %s", got, fourth)
	}
	// A is new again.
	w.rotate("cert", "A")
	w.waitRotated("web", "cert", fourth)
	made := &corev1.SecretList{}
	w.Must(cluster.Client.List(w.Ctx, made, client.InNamespace(w.NS), client.HasLabels{keys.Content}))
	if len(made.Items) > 0 {
		t.Errorf("the credential was copied to %s", made.Items[0].Name)
	}
}

// What the webhook does not see costs nothing: the pods of an undo read the credential that is there.
func rotationWithoutTheWebhook(m *member) {
	w := newWorld(m.T)
	w.Create(certificate("cert", "A"), deployment("web", secretVolume("cert")))
	w.waitFollowed("web", "secret/cert")
	rolledOut := func() { w.Eventually("it is rolled out", func() string { return w.NotRolledOut("web") }) }
	rolledOut()
	w.rotate("cert", "B")
	second := w.waitRotated("web", "cert", "")
	w.image("web", "app:2")
	rolledOut()
	w.rotate("cert", "C")
	third := w.waitRotated("web", "cert", second)
	m.next()
	w.Undo("web", "--to-revision=2")
	w.Eventually("the hash is noted", func() string {
		if got := w.Deployment("web").Annotations[keys.Hashes]; got != third {
			return "noted " + got
		}
		return ""
	})
	w.stays("web", "an undo that the webhook missed")
	if got := w.hashes("web"); got != second {
		m.Errorf("the template has %s, want %s", got, second)
	}
	if notes := w.Events("Restarted", "web"); len(notes) != 2 {
		m.Errorf("reported restarts that did not happen: %q", notes)
	}
	// Its pods started on C. B is a change for them, although the template has its hash.
	w.rotate("cert", "B")
	w.waitRotated("web", "cert", second)
	w.stays("web", "rotated since")
	m.next()
}

// Policy rotate: pods wait for a required source anyway, so its first appearance is no reason to start them again.
func TestRequiredSourceAppearingRestartsNothing(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]optin.Mode{"rotate": optin.Revision, "restart": optin.Restart} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			set := &appsv1.StatefulSet{
				ObjectMeta: metav1.ObjectMeta{Name: "set", Annotations: map[string]string{keys.Track: "all", keys.Mode: mode.Name}},
				Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(1)), ServiceName: "set"},
			}
			like := deployment("set", secretVolume("cert"))
			set.Spec.Selector, set.Spec.Template = like.Spec.Selector, like.Spec.Template
			w.Create(set)
			w.WaitEvent("SourceMissing", "set", "secret/cert")
			w.Create(certificate("cert", "A"))
			w.Eventually("it is followed", func() string {
				w.Must(w.Get("set", set))
				if noted := set.Annotations[keys.Hashes]; !strings.Contains(noted, "secret/cert=") || strings.Contains(noted, "=absent") {
					return "noted " + noted
				}
				return ""
			})
			w.Barrier()
			if w.Must(w.Get("set", set)); set.Generation != 1 {
				t.Errorf("it was rolled out: %v", set.Spec.Template.Annotations)
			}
			w.rotate("cert", "B")
			w.Eventually("it is rolled out for a change", func() string {
				if w.Must(w.Get("set", set)); set.Generation != 2 {
					return fmt.Sprint("generation ", set.Generation)
				}
				return ""
			})
			// It may be deleted to be issued again.
			w.Kubectl("delete", "secret", "cert")
			w.WaitEvent("SourceMissing", "set", "does not exist any more")
			w.Create(certificate("cert", "C"))
			w.Eventually("it is rolled out for what was issued again", func() string {
				if w.Must(w.Get("set", set)); set.Generation != 3 {
					return fmt.Sprint("generation ", set.Generation)
				}
				return ""
			})
		})
	}
}

// Policy rotate: a workload that begins to rotate is not changed by that. It counts from the next change, of the source or of the template.
func TestSwitchingToRotateChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain := certificate("plain", "A")
	plain.Annotations = map[string]string{keys.Policy: "revision"}
	w.Create(secret("db", corev1.SecretTypeOpaque, "tls.crt", "A"), plain, deployment("web", secretVolume("db"), secretVolume("plain")))
	w.waitSecretPinned("web", "db", pin.Pin{})
	p, _ := w.waitSecretPinned("web", "plain", pin.Pin{})
	w.Kubectl("annotate", "secret", "db", keys.Policy+"=rotate")
	w.Kubectl("annotate", "secret", "plain", keys.Policy+"-")
	w.waitFollowed("web", "secret/db")
	w.stays("web", "new policies")
	if got := w.ReplicaSets("web"); len(got) != 1 || w.Pins("web")[pin.Source{Kind: pin.Secret, Name: "plain"}] != p {
		t.Errorf("new policies: %d ReplicaSets, pins %s", len(got), w.PinsText("web"))
	}
	w.rotate("db", "B")
	first := w.waitRotated("web", "db", "")
	w.notPinned("web", "db")
	// The template changed, so this went too (rule 21.6). Its content is the same, so its hash is noted.
	w.notPinned("web", "plain")
	if noted := w.Deployment("web").Annotations[keys.Hashes]; len(w.ReplicaSets("web")) != 2 || !strings.Contains(noted, "secret/plain=") {
		t.Errorf("%d ReplicaSets, noted %s", len(w.ReplicaSets("web")), noted)
	}
	w.Kubectl("annotate", "secret", "db", keys.Policy+"=revision", "--overwrite")
	w.waitSecretPinned("web", "db", pin.Pin{})
	w.rotate("plain", "B")
	w.waitRotated("web", "plain", first)
}
