//go:build e2e

package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Where API servers show a certificate of their own, confrev answers them and no one else, on any path. The authority may change
// without a restart. Not parallel: the only confrev is one that asks for certificates.
func TestOnlyClientsWithACertificateAreAnswered(t *testing.T) {
	stop(t)
	defer start(t)
	w := newWorld(t)
	pki := filepath.Join(filepath.Dir(cluster.Kubeconfig), "pki")
	authority, err := os.ReadFile(filepath.Join(pki, "ca.crt"))
	w.Must(err)
	stranger, strangers := clientOfItsOwn(t)
	file := w.writeFile(t.TempDir(), "ca.crt", string(strangers))
	replica := newReplica(t, "clients", "--leader-elect=false", "--webhook-client-ca-file", file)
	defer replica.stop(t)

	w.Create(configMap("app", "k", "v"))
	asked := func() bool {
		probe := deployment("probe", envFrom("app"))
		probe.Namespace = w.NS
		w.Must(cluster.Client.Create(w.Ctx, probe, client.DryRunAll))
		return probe.Spec.Template.Annotations["confrev.io/pins"] != ""
	}
	w.Eventually("the API server finds the webhook, and its certificate is not taken", func() string {
		text, err := os.ReadFile(replica.Log)
		w.Must(err)
		if asked() {
			t.Fatal("the API server is answered with a certificate of another authority than the file's")
		}
		if !bytes.Contains(text, []byte("certificate signed by unknown authority")) {
			return "no such attempt is logged"
		}
		return ""
	})

	w.Must(os.WriteFile(file, authority, 0o600))
	w.Eventually("the API server is answered", func() string {
		if !asked() {
			return "it is not"
		}
		return ""
	})
	own, err := tls.LoadX509KeyPair(filepath.Join(pki, "admin.crt"), filepath.Join(pki, "admin.key"))
	w.Must(err)
	for name, tt := range map[string]struct {
		shown    []tls.Certificate
		answered bool
	}{
		"none": {nil, false}, "of another authority": {[]tls.Certificate{stranger}, false}, "of the authority": {[]tls.Certificate{own}, true},
	} {
		for _, path := range []string{"/resolve-pins", "/pin-workloads/", "/"} {
			transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
				Certificates: tt.shown, InsecureSkipVerify: true, //nolint:gosec // It is about the client.
			}}
			response, err := (&http.Client{Timeout: patience, Transport: transport}).Get(replica.Webhook + path)
			if err == nil {
				w.Must(response.Body.Close())
			}
			if (err == nil) != tt.answered {
				t.Errorf("%s with a certificate %s: %v", path, name, err)
			}
		}
	}
}

// clientOfItsOwn makes a certificate of a client that is its own authority.
func clientOfItsOwn(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
