package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	servertls "github.com/cert-manager/cert-manager/pkg/server/tls"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"confrev.io/confrev/internal/admission"
)

// The paths of the webhooks, as the chart has them.
const (
	pathWorkloads = "/pin-workloads"
	pathPods      = "/resolve-pins"
)

// webhooks tells whether webhooks are served.
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
	if o.WebhookCertDir == "" && o.Namespace == "" {
		return errors.New("--webhook-bind-address needs --namespace, where the certificate's Secret is kept, or --webhook-cert-dir; 0 serves no webhooks")
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

// certificates makes the source of the webhooks' certificates; nil where something else makes them.
func (o Options) certificates(config *rest.Config) *servertls.DynamicSource {
	if o.WebhookCertDir != "" {
		return nil
	}
	names := o.WebhookNames
	if len(names) == 0 {
		names = []string{o.PolicyPrefix + "." + o.Namespace + ".svc"}
	}
	return admission.NewCertificates(config, o.certificateSecret(), names)
}

func (o Options) certificateSecret() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: o.PolicyPrefix + "-webhook-ca"}
}

// readCertificate reads the webhooks' certificate where something else makes it.
func (o Options) readCertificate() (*tls.Certificate, error) {
	certificate, err := tls.LoadX509KeyPair(filepath.Join(o.WebhookCertDir, "tls.crt"), filepath.Join(o.WebhookCertDir, "tls.key"))
	return &certificate, err
}

// serveWebhooks adds the server of the webhooks, its certificates and what makes the API server trust them.
func (o Options) serveWebhooks(manager ctrl.Manager, admitter *admitter, gate *admission.Gate) error {
	if !o.webhooks() {
		return nil
	}
	host, port, err := o.webhookHostPort()
	if err != nil {
		return err
	}
	options := webhook.Options{Host: host, Port: port, CertDir: o.WebhookCertDir}
	gate.Serves(o.readCertificate)
	var errs []error
	if certificates := o.certificates(manager.GetConfig()); certificates != nil {
		errs = append(errs, manager.AddReadyzCheck("webhook-certificate", func(*http.Request) error {
			if !certificates.Healthy() {
				return fmt.Errorf("the webhooks have no certificate yet; may confrev update Secret %s?", o.certificateSecret())
			}
			return nil
		}))
		gate.Serves(func() (*tls.Certificate, error) { return certificates.GetCertificate(nil) })
		options.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.GetCertificate = certificates.GetCertificate }}
		errs = append(errs, manager.Add(certificates), manager.Add(&admission.Injector{
			Client: manager.GetClient(), Live: manager.GetAPIReader(), Secret: o.certificateSecret(),
			Configurations: o.webhookConfigurations(), Authority: certificates.Authority, Now: time.Now,
		}))
	}
	server := webhook.NewServer(options)
	server.Register(pathWorkloads, inTime(&webhook.Admission{Handler: admitter}))
	server.Register(pathPods, &webhook.Admission{Handler: admission.Pods{}})
	return errors.Join(append(errs, manager.Add(server), manager.AddReadyzCheck("webhooks", server.StartedChecker()))...)
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
