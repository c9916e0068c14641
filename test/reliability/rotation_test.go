//go:build reliability

package reliability

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/env"
)

// rotation is what API servers see while certificates are replaced.
type rotation struct {
	*world
	// members are the confrevs that run.
	members []*member
	// pod is one of a pinned template, and revision what it must read.
	pod      *corev1.Pod
	revision string
	// known are the authorities that API servers were told of, and since when.
	known    []known
	requests int
}

// known is what API servers trusted at some time.
type known struct {
	at time.Time
	// bundles has one for each webhook.
	bundles [][]byte
}

// begin looks at what is there before certificates are replaced: Deployment web is pinned.
func (r *rotation) begin() {
	r.Helper()
	template := r.Deployment("web").Spec.Template
	r.pod = &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	r.pod.Name, r.pod.Namespace = "probe", r.NS
	r.revision = r.PinOf("web", source).Revision
	r.Eventually("pods are resolved by the webhook", func() string { return r.refused() })
}

// tick is how often API servers ask.
var tick = time.Tick(100 * time.Millisecond)

// stepUntil lets requests happen until a time.
func (r *rotation) stepUntil(end time.Time) {
	r.Helper()
	for time.Now().Before(end) {
		r.step()
	}
}

// step lets one request of each kind happen, with a new connection, and looks at what is served.
func (r *rotation) step() {
	r.Helper()
	<-tick
	ended, err := cluster.DisconnectWebhook(r.Ctx)
	r.Must(err)
	if ended == 0 {
		r.Fatalf("request %d made no connection: this shows nothing", r.requests)
	}
	r.requests++
	if complaint := r.refused(); complaint != "" {
		r.Fatalf("request %d: %s", r.requests, complaint)
	}
	now := known{at: time.Now()}
	for _, config := range configurations(r.T) {
		for _, hook := range config.Webhooks {
			now.bundles = append(now.bundles, hook.ClientConfig.CABundle)
		}
	}
	r.known = append(r.known, now)
	r.checkLate(now.at.Add(-late))
}

// checkLate checks that an API server that has not learned of anything since a time trusts what is served.
func (r *rotation) checkLate(since time.Time) {
	r.Helper()
	at := -1
	for i, k := range r.known {
		if !k.at.After(since) {
			at = i
		}
	}
	if at < 0 {
		return
	}
	for m, leaf := range r.serving() {
		for _, bundle := range r.known[at].bundles {
			if err := trusts(bundle, leaf); err != nil {
				r.Fatalf("request %d: an API server that learns of authorities %s late does not trust %s: %v", r.requests, late, m.Log, err)
			}
		}
	}
}

// refused complains if a request about a workload went by, or a pod was refused or not resolved. Both are dry runs.
func (r *rotation) refused() (complaint string) {
	r.Helper()
	workload := deployment("probe")
	workload.Namespace = r.NS
	r.Must(cluster.Client.Create(r.Ctx, workload, client.DryRunAll))
	if workload.Spec.Template.Annotations[keys.Pins] == "" {
		return "one about a workload went by"
	}
	pod := r.pod.DeepCopy()
	if err := cluster.Client.Create(r.Ctx, pod, client.DryRunAll); err != nil {
		return err.Error()
	}
	if got := pod.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name; got != r.revision {
		return fmt.Sprintf("a pod reads %s, want %s", got, r.revision)
	}
	return ""
}

// serving returns the certificates that are served.
func (r *rotation) serving() map[*member]*x509.Certificate {
	r.Helper()
	all := map[*member]*x509.Certificate{}
	for _, m := range r.members {
		connection, err := tls.Dial("tcp", strings.TrimPrefix(m.Webhook, "https://"), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // It is about the server.
		r.Must(err)
		all[m] = connection.ConnectionState().PeerCertificates[0]
		r.Must(connection.Close())
	}
	return all
}

// trusts returns why an API server with a bundle does not trust a certificate.
func trusts(bundle []byte, leaf *x509.Certificate) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := leaf.Verify(x509.VerifyOptions{DNSName: env.WebhookHost, Roots: roots})
	return err
}

// checkAuthority checks how API servers came to trust another authority than an old one, which has ended.
func (r *rotation) checkAuthority(old authority, ends time.Time) {
	r.Helper()
	if time.Now().Before(ends) {
		r.Fatalf("the authority ends at %s", ends)
	}
	var told time.Time
	for _, k := range r.known {
		isTold := true
		for i, bundle := range k.bundles {
			isTold = isTold && bytes.Count(bundle, []byte("BEGIN")) > bytes.Count(r.known[0].bundles[i], []byte("BEGIN"))
		}
		if isTold && told.IsZero() {
			told = k.at
		}
	}
	if told.IsZero() || !told.Before(ends.Add(-late)) {
		r.Errorf("API servers were told of another authority at %s; the one before ended at %s", told, ends)
	}
	for m, leaf := range r.serving() {
		if leaf.CheckSignatureFrom(old.certificate) == nil {
			r.Errorf("%s serves a certificate of the authority that has ended", m.Log)
		}
	}
	r.Eventually("API servers do not know the old authority any more", func() string {
		for _, config := range configurations(r.T) {
			for _, hook := range config.Webhooks {
				if bytes.Contains(hook.ClientConfig.CABundle, old.pem) {
					return hook.Name + " does"
				}
			}
		}
		return ""
	})
	r.Logf("%d requests, each with a new connection; API servers were told of the next authority %s before the old one ended",
		r.requests, ends.Sub(told).Round(time.Second))
}

// authority signs certificates.
type authority struct {
	pem         []byte
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func makeAuthority(t *testing.T, begins, ends time.Time) authority {
	t.Helper()
	a := authority{key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(begins.UnixNano()), Subject: pkix.Name{CommonName: fmt.Sprint("authority until ", ends)}, NotBefore: begins, NotAfter: ends,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	a.pem, a.certificate = sign(t, template, template, a.key, a.key)
	return a
}

// secret returns what replicas share of it.
func (a authority) secret() map[string][]byte {
	return map[string][]byte{"ca.crt": a.pem, "tls.crt": a.pem, "tls.key": keyText(a.key)}
}

// issue makes the files of a certificate that ends with the authority.
func (a authority) issue(t *testing.T, host string) map[string][]byte {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{host}, NotBefore: a.certificate.NotBefore, NotAfter: a.certificate.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	text, _ := sign(t, template, a.certificate, key, a.key)
	return map[string][]byte{"ca.crt": a.pem, "tls.crt": text, "tls.key": keyText(key)}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func keyText(key *ecdsa.PrivateKey) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		// It was just made.
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func sign(t *testing.T, template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) ([]byte, *x509.Certificate) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), certificate
}
