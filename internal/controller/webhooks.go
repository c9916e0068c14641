package controller

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

	"confrev.io/confrev/internal/gate"
	ownwebhook "confrev.io/confrev/internal/webhook"
)

// The paths of the webhooks. Behind that of workloads comes a secret part, which confrev puts into the webhook's configuration: it
// fails open, so no error ever shows the path. That of pods fails closed, and its errors end up in events; its answer comes from
// the request alone.
const (
	pathWorkloads = "/pin-workloads/"
	pathPods      = "/resolve-pins"
)

// webhooks reports whether webhooks are served.
func (o Options) webhooks() bool { return o.WebhookAddress != "0" && o.WebhookAddress != "" }

// webhookConfigurations are the names of the chart's MutatingWebhookConfigurations.
func (o Options) webhookConfigurations() []string {
	return []string{o.PolicyPrefix + "-pin-workloads", o.PolicyPrefix + "-resolve-pins"}
}

func (o Options) validateWebhooks() error {
	if !o.webhooks() {
		return nil
	}
	if _, _, err := o.webhookHostPort(); err != nil {
		return err
	}
	if o.Namespace == "" {
		return errors.New("--webhook-bind-address needs --namespace, where the Secret of the webhooks is kept; 0 serves no webhooks")
	}
	return nil
}

func (o Options) webhookHostPort() (host string, port int, err error) {
	host, text, err := net.SplitHostPort(o.WebhookAddress)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 1 {
		return "", 0, fmt.Errorf("--webhook-bind-address=%s: want [host]:port, or 0 for none", o.WebhookAddress)
	}
	return host, port, nil
}

// certificates makes what keeps the webhooks' certificates and the secret path.
func (o Options) certificates(manager ctrl.Manager) *ownwebhook.Certificates {
	names := o.WebhookNames
	if len(names) == 0 {
		names = []string{o.PolicyPrefix + "." + o.Namespace + ".svc"}
	}
	configurations := o.webhookConfigurations()
	return &ownwebhook.Certificates{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Now: time.Now, DNSNames: names,
		Secret:         types.NamespacedName{Namespace: o.Namespace, Name: o.PolicyPrefix + "-webhook-ca"},
		Configurations: configurations, PathOf: configurations[0], Prefix: pathWorkloads, OnlyPath: o.WebhookCertDir != "",
	}
}

// readCertificate reads the webhooks' certificate where something else makes it.
func (o Options) readCertificate() (*tls.Certificate, error) {
	certificate, err := tls.LoadX509KeyPair(filepath.Join(o.WebhookCertDir, "tls.crt"), filepath.Join(o.WebhookCertDir, "tls.key"))
	return &certificate, err
}

// serveWebhooks adds the server of the webhooks, its certificates and what makes the API server trust them.
func (o Options) serveWebhooks(manager ctrl.Manager, admitter *admitter, gate *gate.Gate) error {
	if !o.webhooks() {
		return nil
	}
	host, port, err := o.webhookHostPort()
	if err != nil {
		return err
	}
	options := webhook.Options{Host: host, Port: port, CertDir: o.WebhookCertDir}
	gate.Serves(o.readCertificate)
	certificates := o.certificates(manager)
	errs := []error{manager.Add(certificates)}
	if o.WebhookCertDir == "" {
		served := func() (*tls.Certificate, error) { return certificates.GetCertificate(nil) }
		gate.Serves(served)
		errs = append(errs, manager.AddReadyzCheck("webhook-certificate", func(*http.Request) error {
			_, err := served()
			return err
		}))
		options.TLSOpts = append(options.TLSOpts, func(c *tls.Config) { c.GetCertificate = certificates.GetCertificate })
	}
	if o.WebhookClientCA != "" {
		options.TLSOpts = append(options.TLSOpts, o.onlyClients)
	}
	server := webhook.NewServer(options)
	server.Register(pathWorkloads, certificates.Guard(pathWorkloads, inTime(&webhook.Admission{Handler: admitter})))
	server.Register(pathPods, &webhook.Admission{Handler: ownwebhook.Pods{}})
	return errors.Join(append(errs, manager.Add(server), manager.AddReadyzCheck("webhooks", server.StartedChecker()))...)
}

// onlyClients answers only clients with a certificate of the authority in the file, which is read again for each connection. Whom
// the API server presents is a matter of its own configuration.
func (o Options) onlyClients(c *tls.Config) {
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		text, err := os.ReadFile(o.WebhookClientCA)
		if err != nil {
			return nil, fmt.Errorf("--webhook-client-ca-file: %w", err)
		}
		own := c.Clone()
		own.GetConfigForClient, own.ClientCAs = nil, x509.NewCertPool()
		if !own.ClientCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--webhook-client-ca-file=%s: it has no certificate", o.WebhookClientCA)
		}
		return own, nil
	}
}

// inTime ends what a request started a little before the API server gives up, which says when in the request.
func inTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if timeout, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil {
			ctx, cancel := context.WithTimeout(r.Context(), timeout*9/10)
			defer cancel()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}
