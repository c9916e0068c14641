//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"confrev.io/confrev/test/env"
)

// With metrics.secure, only a client whose token has the right to get /metrics reads them, over TLS with the certificate that is given.
// Not parallel: the chart has the rights for that only meanwhile.
func TestMetricsAreForThoseWhoMayGetThem(t *testing.T) {
	stop(t)
	w := newWorld(t)
	reinstallAfter(t)
	w.Must(reinstall(t, "metrics.secure=true"))
	dir := t.TempDir()
	certificate := w.writeCertificate(dir)
	c, err := cluster.Confrev(w.Ctx, "metrics-secure", binary, "--settle", "0s", "--grace", grace.String(), "--metrics-secure", "--metrics-cert-dir", dir,
		"--stages", listStages())
	w.Must(err)
	// That it is ready, the tests' own look at the metrics would tell.
	w.Must(c.Launch())
	defer func() { w.Must(c.Stop()) }()
	for _, account := range []string{"prometheus", "other"} {
		w.Kubectl("create", "serviceaccount", account)
	}
	w.Kubectl("create", "clusterrolebinding", w.NS, "--clusterrole=confrev-metrics-reader", "--serviceaccount="+w.NS+":prometheus")
	defer w.Kubectl("delete", "clusterrolebinding", w.NS)

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	trusting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: env.WebhookHost}}}
	defer trusting.CloseIdleConnections()
	get := func(token string) (status int, body string, err error) {
		request, err := http.NewRequestWithContext(w.Ctx, http.MethodGet, strings.Replace(c.Metrics, "http://", "https://", 1), http.NoBody)
		w.Must(err)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := trusting.Do(request)
		if err != nil {
			return 0, "", err
		}
		text, err := io.ReadAll(response.Body)
		w.Must(err)
		w.Must(response.Body.Close())
		return response.StatusCode, string(text), nil
	}
	of := func(account string) string { return strings.TrimSpace(w.Kubectl("create", "token", account)) }
	tests := map[string]struct {
		token  string
		status int
	}{
		"with the right":    {of("prometheus"), http.StatusOK},
		"without the right": {of("other"), http.StatusForbidden},
		"a forged token":    {of("prometheus") + "x", http.StatusUnauthorized},
		"no token":          {"", http.StatusUnauthorized},
	}
	for name, test := range tests {
		// A start takes a moment, and a binding to count.
		w.Eventually(name, func() string {
			status, body, err := get(test.token)
			if err != nil {
				return err.Error()
			}
			if tells := strings.Contains(body, "confrev_pod_admission"); status != test.status || tells != (status == http.StatusOK) {
				return http.StatusText(status) + ": " + body
			}
			return ""
		})
	}
	w.scrapes(c.Metrics, tests["with the right"].token)
	if _, err := c.ReadMetrics(w.Ctx); err == nil {
		t.Error("they are served over plain HTTP too")
	}
	read := func() (env.Metrics, error) {
		_, body, err := get(tests["with the right"].token)
		if err != nil {
			return nil, err
		}
		return env.ParseMetrics(strings.NewReader(body))
	}
	w.wantWorkloadsCountedByState(read)
	wantWaitingCountedByReason(t, read)
}

// scrapes reads metrics with the settings that docs/metrics.md shows, as Prometheus does.
func (w *world) scrapes(metrics, token string) {
	w.Helper()
	var settings struct {
		Scheme        string `json:"scheme"`
		Authorization struct {
			File string `json:"credentials_file"`
		} `json:"authorization"`
		TLS struct {
			Insecure bool `json:"insecure_skip_verify"`
		} `json:"tls_config"`
	}
	w.Must(yaml.UnmarshalStrict([]byte(runsOf(w.T, "docs/metrics.md")[0].text), &settings))
	request, err := http.NewRequestWithContext(w.Ctx, http.MethodGet, strings.Replace(metrics, "http://", settings.Scheme+"://", 1), http.NoBody)
	w.Must(err)
	if settings.Authorization.File == "/var/run/secrets/kubernetes.io/serviceaccount/token" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: settings.TLS.Insecure}} //nolint:gosec // The page says so.
	defer transport.CloseIdleConnections()
	w.Eventually("they are read with the settings of docs/metrics.md", func() string {
		response, err := transport.RoundTrip(request)
		if err != nil {
			return err.Error()
		}
		w.Must(response.Body.Close())
		if response.StatusCode != http.StatusOK {
			return response.Status
		}
		return ""
	})
}

// writeCertificate writes a self-signed certificate as cert-manager's Secret is mounted, and returns it.
func (w *world) writeCertificate(dir string) []byte {
	w.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.Must(err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	w.Must(err)
	template := &x509.Certificate{
		SerialNumber: serial, DNSNames: []string{env.WebhookHost}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	w.Must(err)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	text, err := x509.MarshalECPrivateKey(private)
	w.Must(err)
	w.Must(os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text}), 0o600))
	w.Must(os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600))
	return certificate
}
