//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/test/env"
)

// What the chart asks of cert-manager is what its own controllers make and renew, and no request goes by meanwhile: API servers trust
// the leaf that the replicas still serve, and the one that they serve next. Not parallel: the only confrev is one that serves it.
func TestTheCertificateOfTheWebhookFromCertManager(t *testing.T) {
	w := newWorld(t)
	w.startCertManager()
	stop(t)
	reinstallAfter(t)
	w.withCertManager()
	files := &mounted{dir: t.TempDir()}
	first := w.certificate("", "confrev-webhook")
	files.write(t, first.Data)
	c, err := cluster.Confrev(w.Ctx, "with-cert-manager", binary, "--settle", "0s", "--grace", grace.String(), "--webhook-cert-dir", files.dir)
	w.Must(err)
	w.Must(c.Start(w.Ctx))
	defer func() { w.Must(c.Stop()) }()
	w.Must(cluster.WaitWebhook(w.Ctx))
	w.Create(configMap("app", "k", "v"))
	w.mustBeAsked("with the first certificate")

	// The authority before the leaf, since it is the authority of the leaf's Secret that API servers are told of.
	w.renew("confrev-webhook-root")
	second := w.renew("confrev-webhook")
	if bytes.Equal(first.Data["ca.crt"], second.Data["ca.crt"]) {
		t.Error("the authority was not renewed: this test shows less than it should")
	}
	trusts(t, second.Data["ca.crt"], first.Data["tls.crt"])
	w.Eventually("API servers are told of the new authority", func() string {
		if told := w.pinWorkloads().Webhooks[0].ClientConfig.CABundle; !bytes.Contains(told, second.Data["ca.crt"]) {
			return fmt.Sprintf("they are told of\n%s", told)
		}
		return ""
	})
	w.mustBeAsked("with the first certificate, and the second one's authority")
	if !bytes.Equal(served(t, c), first.Data["tls.crt"]) {
		t.Error("it does not serve the first certificate any more")
	}
	files.write(t, second.Data)
	w.Eventually("the second certificate is served", func() string {
		w.mustBeAsked("while the certificate changes")
		if !bytes.Equal(served(t, c), second.Data["tls.crt"]) {
			return "the first one"
		}
		return ""
	})
	w.mustBeAsked("with the second certificate")
}

// A root and an intermediate authority, each an Issuer of type CA, as organizations have them. Only the key of the root stays on renewal.
const authorities = `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: e2e-self-signed}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: e2e-root}
spec:
  isCA: true
  commonName: root
  secretName: e2e-root
  privateKey: {algorithm: ECDSA, rotationPolicy: Never}
  issuerRef: {name: e2e-self-signed}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: e2e-root}
spec: {ca: {secretName: e2e-root}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: e2e-intermediate}
spec:
  isCA: true
  commonName: intermediate
  secretName: e2e-intermediate
  privateKey: {algorithm: ECDSA, rotationPolicy: Always}
  issuerRef: {name: e2e-root}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: e2e-intermediate}
spec: {ca: {secretName: e2e-intermediate}}
`

// An Issuer of type CA signs the certificate: replicas serve the chain up to the root, which is what API servers are told to trust, so the
// intermediate authority may be replaced, key and all, and no request goes by. Not parallel, as above.
func TestTheCertificateOfTheWebhookFromACAIssuer(t *testing.T) {
	w := newWorld(t)
	w.startCertManager()
	authority := worldIn(t, env.Namespace)
	authority.KubectlIn(authorities, "apply", "-f", "-")
	t.Cleanup(func() {
		// The test's own context has ended, and cert-manager has not.
		for _, args := range [][]string{{"issuers,certificates", "e2e-root", "e2e-intermediate"}, {"issuers", "e2e-self-signed"}, {"secrets", "e2e-root", "e2e-intermediate"}} {
			if _, err := cluster.Kubectl(context.Background(), append([]string{"--namespace", env.Namespace, "delete", "--ignore-not-found"}, args...)...); err != nil {
				t.Error(err)
			}
		}
	})
	stop(t)
	reinstallAfter(t)
	w.withCertManager("webhook.certManager.issuerRef.kind=Issuer", "webhook.certManager.issuerRef.name=e2e-intermediate")
	files := &mounted{dir: t.TempDir()}
	first := w.certificate("", "confrev-webhook")
	root, chain := w.certificate("", "e2e-root"), certificatesOf(t, first.Data["tls.crt"])
	if len(chain) != 2 || chain[0].Issuer.CommonName != "intermediate" || chain[1].Subject.CommonName != "intermediate" {
		t.Fatalf("the chain is %v: this test shows less than it should", chain)
	}
	if !bytes.Equal(first.Data["ca.crt"], root.Data["tls.crt"]) {
		t.Errorf("API servers are told to trust\n%s, not the root", first.Data["ca.crt"])
	}
	files.write(t, first.Data)
	c, err := cluster.Confrev(w.Ctx, "with-ca-issuer", binary, "--settle", "0s", "--grace", grace.String(), "--webhook-cert-dir", files.dir)
	w.Must(err)
	w.Must(c.Start(w.Ctx))
	defer func() { w.Must(c.Stop()) }()
	w.Must(cluster.WaitWebhook(w.Ctx))
	w.Create(configMap("app", "k", "v"))
	w.mustBeAsked("with a chain")

	for _, renewed := range [][]string{{"e2e-intermediate"}, {"e2e-root", "e2e-intermediate"}} {
		for _, name := range renewed {
			w.renew(name)
		}
		next := w.renew("confrev-webhook")
		if bytes.Equal(certificatesOf(t, next.Data["tls.crt"])[1].RawSubjectPublicKeyInfo, certificatesOf(t, first.Data["tls.crt"])[1].RawSubjectPublicKeyInfo) {
			t.Error("the intermediate has its old key: this test shows less than it should")
		}
		trusts(t, next.Data["ca.crt"], first.Data["tls.crt"])
		w.Eventually("API servers are told of the authority", func() string {
			if told := w.pinWorkloads().Webhooks[0].ClientConfig.CABundle; !bytes.Contains(told, next.Data["ca.crt"]) {
				return fmt.Sprintf("they are told of\n%s", told)
			}
			return ""
		})
		w.mustBeAsked("with the certificate before, after " + strings.Join(renewed, " and "))
		files.write(t, next.Data)
		w.Eventually("the next certificate is served", func() string {
			w.mustBeAsked("while the certificate changes")
			if !bytes.Equal(served(t, c), leafOf(next.Data["tls.crt"])) {
				return "the one before"
			}
			return ""
		})
		w.mustBeAsked("with the next certificate")
		first = next
	}
}

// certificatesOf reads the certificates of a file of them.
func certificatesOf(t *testing.T, file []byte) (all []*x509.Certificate) {
	t.Helper()
	for block, rest := pem.Decode(file); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, certificate)
	}
	return all
}

// leafOf returns the first certificate of a file of them.
func leafOf(file []byte) []byte {
	block, _ := pem.Decode(file)
	return pem.EncodeToMemory(block)
}

// trusts checks that an authority alone is enough for a leaf with its chain. cert-manager 1.21 tells API servers of the authority before as well, as long
// as that is valid; earlier ones do not.
func trusts(t *testing.T, authority, leaf []byte) {
	t.Helper()
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	chain := certificatesOf(t, leaf)
	if !roots.AppendCertsFromPEM(authority) || len(chain) == 0 {
		t.Fatalf("no certificates: %s %s", authority, leaf)
	}
	for _, certificate := range chain[1:] {
		intermediates.AddCert(certificate)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, DNSName: env.WebhookHost}); err != nil {
		t.Errorf("the new authority does not know the certificate that is still served: %v", err)
	}
}

// mustBeAsked checks that the webhook plans within a request.
func (w *world) mustBeAsked(when string) {
	w.Helper()
	probe := deployment("probe", envFrom("app"))
	probe.Namespace = w.NS
	w.Must(cluster.Client.Create(w.Ctx, probe, client.DryRunAll))
	if probe.Spec.Template.Annotations["confrev.io/pins"] == "" {
		w.Errorf("%s, a request went by", when)
	}
}

// withCertManager installs the chart with certificates of cert-manager, after those of an earlier test have gone, which cert-manager leaves.
func (w *world) withCertManager(values ...string) {
	w.Helper()
	_, err := cluster.Kubectl(w.Ctx, "--namespace", env.Namespace, "delete", "--ignore-not-found", "secrets", "confrev-webhook", "confrev-webhook-root")
	w.Must(err)
	w.Must(reinstall(w.T, append([]string{"webhook.certManager.enabled=true"}, values...)...))
}

// startCertManager installs cert-manager's kinds and runs its controllers until the test ends.
func (w *world) startCertManager() {
	w.Helper()
	download := exec.CommandContext(w.Ctx, "go", "mod", "download", "-json", "github.com/cert-manager/cert-manager")
	download.Dir = filepath.Join(env.Root(), "hack/modules/cert-manager")
	download.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := download.Output()
	w.Must(err)
	var module struct{ Dir string }
	w.Must(json.Unmarshal(out, &module))
	crds := filepath.Join(module.Dir, "deploy/crds")
	// On the server's side, since they are too large for the annotation that kubectl would write.
	w.Kubectl("apply", "--server-side", "--force-conflicts", "-f", crds)
	w.Must(cluster.WaitEstablished(w.Ctx, "-f", crds))
	path, err := cluster.Tool(w.Ctx, "cert-manager")
	w.Must(err)
	log, err := os.Create(filepath.Join(cluster.Dir, "cert-manager.log"))
	w.Must(err)
	manager := exec.Command(path)
	manager.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig)
	manager.Stdout, manager.Stderr = log, log
	w.Must(env.Start(manager))
	w.Cleanup(func() {
		_ = manager.Process.Signal(os.Interrupt)
		if err := manager.Wait(); err != nil {
			w.Errorf("cert-manager did not end well, see %s: %v", log.Name(), err)
		}
		w.Must(log.Close())
	})
}

// certificate waits for a Secret of cert-manager with another certificate than one before.
func (w *world) certificate(before, name string) *corev1.Secret {
	w.Helper()
	secret := &corev1.Secret{}
	w.Eventually("cert-manager makes "+name, func() string {
		err := cluster.Client.Get(w.Ctx, types.NamespacedName{Namespace: env.Namespace, Name: name}, secret)
		if err != nil {
			return err.Error()
		}
		if certificate := string(secret.Data["tls.crt"]); certificate == "" || certificate == before {
			return "not yet"
		}
		return ""
	})
	return secret
}

// renew renews a certificate now, as cert-manager's own command does.
func (w *world) renew(name string) *corev1.Secret {
	w.Helper()
	before := w.certificate("", name)
	w.Eventually("cert-manager has noted that it made "+name, func() string {
		conditions, err := cluster.Kubectl(w.Ctx, "--namespace", env.Namespace, "get", "certificate", name, "--output", "jsonpath={.status.conditions[*].type}")
		if err != nil || strings.Contains(conditions, "Issuing") || !strings.Contains(conditions, "Ready") {
			return fmt.Sprint("conditions ", conditions, ", ", errorText(err))
		}
		return ""
	})
	issuing := `[{"op":"add","path":"/status/conditions/-","value":{"type":"Issuing","status":"True","reason":"ManuallyTriggered","message":"renewed by a test"}}]`
	_, err := cluster.Kubectl(w.Ctx, "--namespace", env.Namespace, "patch", "certificate", name, "--subresource=status", "--type=json", "-p", issuing)
	w.Must(err)
	return w.certificate(string(before.Data["tls.crt"]), name)
}

// mounted is a directory that gets the files of a Secret as a kubelet brings them: all at once.
type mounted struct {
	dir   string
	times int
}

func (m *mounted) write(t *testing.T, data map[string][]byte) {
	t.Helper()
	m.times++
	version := fmt.Sprintf("..%d", m.times)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(filepath.Join(m.dir, version), 0o700))
	for name, content := range data {
		must(os.WriteFile(filepath.Join(m.dir, version, name), content, 0o600))
		if m.times == 1 {
			must(os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)))
		}
	}
	must(os.Symlink(version, filepath.Join(m.dir, "..new")))
	must(os.Rename(filepath.Join(m.dir, "..new"), filepath.Join(m.dir, "..data")))
}

// served returns the certificate that a confrev shows to clients.
func served(t *testing.T, c *env.Confrev) []byte {
	t.Helper()
	connection, err := tls.Dial("tcp", strings.TrimPrefix(c.Webhook, "https://"), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // It is about the server.
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: connection.ConnectionState().PeerCertificates[0].Raw})
}
