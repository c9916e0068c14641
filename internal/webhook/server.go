package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"confrev.io/confrev/internal/gate"
	"confrev.io/confrev/internal/inflight"
)

// The paths of the webhooks. The path of the workload webhook is followed by a secret part, which confrev writes to the webhook's
// configuration. That webhook fails open, so no error ever shows the path. The pod webhook fails closed, so its path would appear in
// events; it needs no secret, because its answer depends on the request alone.
const (
	pathWorkloads = "/pin-workloads/"
	pathPods      = "/resolve-pins"
)

// Options are the webhooks' command-line options.
type Options struct {
	// Address is the [host]:port to serve on. With "0", no webhooks are served.
	Address string
	// DNSNames are the names, or addresses, by which the API server connects to them.
	DNSNames []string
	// CertDir is the directory with their certificate (tls.crt, tls.key), if another component issues it.
	CertDir string
	// ClientCA is a file with the authority that must have signed clients' certificates. If it is empty, any client is accepted.
	ClientCA string
}

// Serves reports whether the webhooks are served.
func (o Options) Serves() bool { return o.Address != "0" && o.Address != "" }

// Validate returns what is wrong with the options, in the words of the command line's flags.
func (o Options) Validate() error {
	if !o.Serves() {
		return nil
	}
	_, _, err := o.hostPort()
	return err
}

func (o Options) hostPort() (host string, port int, err error) {
	host, text, err := net.SplitHostPort(o.Address)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 1 {
		return "", 0, fmt.Errorf("--webhook-bind-address=%s: want [host]:port, or 0 for none", o.Address)
	}
	return host, port, nil
}

// Server serves the webhooks of one installation of the chart.
type Server struct {
	Options Options
	// Namespace is confrev's own namespace, and Prefix is the beginning of the names of the chart's objects.
	Namespace, Prefix string
	// Workloads handles the workload webhook.
	Workloads admission.Handler
	Gate      *gate.Gate
}

// AddTo adds the server to a manager, with the component that renews its certificates and makes API servers trust them.
func (s Server) AddTo(manager ctrl.Manager) error {
	if !s.Options.Serves() {
		return nil
	}
	host, port, err := s.Options.hostPort()
	if err != nil {
		return err
	}
	options := webhook.Options{Host: host, Port: port, CertDir: s.Options.CertDir}
	s.Gate.Serves(s.Options.readCertificate)
	certificates := s.certificates(manager)
	errs := []error{manager.Add(certificates)}
	if s.Options.CertDir == "" {
		served := func() (*tls.Certificate, error) { return certificates.GetCertificate(nil) }
		s.Gate.Serves(served)
		errs = append(errs, manager.AddReadyzCheck("webhook-certificate", func(*http.Request) error {
			_, err := served()
			return err
		}))
		options.TLSOpts = append(options.TLSOpts, func(c *tls.Config) { c.GetCertificate = certificates.GetCertificate })
	}
	if s.Options.ClientCA != "" {
		options.TLSOpts = append(options.TLSOpts, s.Options.onlyClients)
	}
	server := webhook.NewServer(options)
	// Guard refuses a request before its body is read. Pods have no secret path, so anyone may send that webhook anything.
	server.Register(pathWorkloads, certificates.Guard(pathWorkloads, inTime(&webhook.Admission{Handler: s.Workloads})))
	server.Register(pathPods, newBounded(Pods{}))
	return errors.Join(append(errs, manager.Add(server), manager.AddReadyzCheck("webhooks", server.StartedChecker()))...)
}

// certificates returns the component that maintains the webhooks' certificates and the secret path.
func (s Server) certificates(manager ctrl.Manager) *Certificates {
	names := s.Options.DNSNames
	if len(names) == 0 {
		names = []string{s.Prefix + "." + s.Namespace + ".svc"}
	}
	workloads, pods := s.Prefix+"-pin-workloads", s.Prefix+"-resolve-pins"
	return &Certificates{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Now: time.Now, DNSNames: names,
		Secret:         types.NamespacedName{Namespace: s.Namespace, Name: s.Prefix + "-webhook-ca"},
		Configurations: []string{workloads, pods}, PathOf: workloads, Prefix: pathWorkloads, OnlyPath: s.Options.CertDir != "",
	}
}

// readCertificate reads the webhooks' certificate if another component issues it.
func (o Options) readCertificate() (*tls.Certificate, error) {
	certificate, err := tls.LoadX509KeyPair(filepath.Join(o.CertDir, "tls.crt"), filepath.Join(o.CertDir, "tls.key"))
	return &certificate, err
}

// onlyClients makes the server accept only clients whose certificate is signed by the authority in the file ClientCA, which is read
// again for each connection. Which certificate the API server presents depends on its own configuration.
func (o Options) onlyClients(c *tls.Config) {
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		text, err := os.ReadFile(o.ClientCA)
		if err != nil {
			return nil, fmt.Errorf("--webhook-client-ca-file: %w", err)
		}
		own := c.Clone()
		own.GetConfigForClient, own.ClientCAs = nil, x509.NewCertPool()
		if !own.ClientCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--webhook-client-ca-file=%s: it has no certificate", o.ClientCA)
		}
		return own, nil
	}
}

// inTime handles a request before anything else, and ends that shortly before the API server gives up. The request has the API server's timeout.
func inTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := inflight.Urgent(r.Context())
		if timeout, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout*9/10)
			defer cancel()
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
