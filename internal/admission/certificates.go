package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	servertls "github.com/cert-manager/cert-manager/pkg/server/tls"
	"github.com/cert-manager/cert-manager/pkg/server/tls/authority"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/keys"
)

// caKey is where the authority keeps its certificate in its Secret, beside the private key.
const caKey = "ca.crt"

// NewCertificates makes the source of the webhook server's certificates: each replica signs its own, in memory, with an
// authority that they share in one Secret. Both are renewed in time, and no restart is needed.
func NewCertificates(config *rest.Config, secret types.NamespacedName, dnsNames []string) *servertls.DynamicSource {
	return &servertls.DynamicSource{
		DNSNames: dnsNames,
		Authority: &authority.DynamicAuthority{
			SecretNamespace: secret.Namespace, SecretName: secret.Name, CommonName: "confrev-webhook-ca", RESTConfig: config,
		},
	}
}

// Injector keeps the authority's certificate in webhook configurations, so that the API server trusts the webhook server.
// All replicas do, and none undoes what another does: certificates are added, and go when they have expired. So during a
// rotation the server is trusted throughout.
type Injector struct {
	Client client.Client
	// Live reads without a cache.
	Live   client.Reader
	Secret types.NamespacedName
	// Configurations are the names of MutatingWebhookConfigurations. One that does not exist is nobody's concern.
	Configurations []string
	// Authority tells when the certificate has changed.
	Authority servertls.Authority
	Now       func() time.Time
}

// injectEvery is how often to look whether somebody took the certificate away.
const injectEvery = 10 * time.Second

// NeedLeaderElection is false: every replica serves.
func (*Injector) NeedLeaderElection() bool { return false }

// Start keeps injecting until ctx ends.
func (i *Injector) Start(ctx context.Context) error {
	rotated := make(chan struct{}, 1)
	i.Authority.WatchRotation(rotated)
	defer i.Authority.StopWatchingRotation(rotated)
	said := ""
	for {
		err := i.inject(ctx)
		if text := fmt.Sprint(err); err != nil && text != said && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "cannot make the API server trust the webhook; trying again")
			said = text
		}
		if err == nil {
			said = ""
		}
		select {
		case <-ctx.Done():
			return nil
		case <-rotated:
		case <-time.After(injectEvery):
		}
	}
}

func (i *Injector) inject(ctx context.Context) error {
	secret := &corev1.Secret{}
	if err := i.Live.Get(ctx, i.Secret, secret); err != nil {
		// The authority is about to make it, and tells.
		return client.IgnoreNotFound(err)
	}
	var errs []error
	for _, name := range i.Configurations {
		errs = append(errs, i.injectInto(ctx, name, secret.Data[caKey]))
	}
	return errors.Join(errs...)
}

func (i *Injector) injectInto(ctx context.Context, name string, ca []byte) error {
	config := &admissionregistrationv1.MutatingWebhookConfiguration{}
	err := i.Live.Get(ctx, types.NamespacedName{Name: name}, config)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	patch := []map[string]any{{"op": "test", "path": "/metadata/resourceVersion", "value": config.ResourceVersion}}
	for at, hook := range config.Webhooks {
		if bundle := withAuthority(hook.ClientConfig.CABundle, ca, i.Now()); !bytes.Equal(bundle, hook.ClientConfig.CABundle) {
			path := "/webhooks/" + strconv.Itoa(at) + "/clientConfig/caBundle"
			patch = append(patch, map[string]any{"op": "add", "path": path, "value": bundle})
		}
	}
	if len(patch) == 1 || len(ca) == 0 {
		return nil
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	err = i.Client.Patch(ctx, config, client.RawPatch(types.JSONPatchType, data), client.FieldOwner(keys.FieldManager))
	if apierrors.IsInvalid(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		// Another replica was faster, or the chart is being changed. The next look will tell.
		return nil
	}
	if err != nil {
		return fmt.Errorf("put the certificate into MutatingWebhookConfiguration %s: %w", name, err)
	}
	log.FromContext(ctx).Info("the API server trusts the webhook", "configuration", name)
	return nil
}

// withAuthority gives a bundle of certificates with one more, without those that have expired or cannot be read.
func withAuthority(bundle, ca []byte, now time.Time) []byte {
	var kept []byte
	add := func(block *pem.Block) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && now.Before(c.NotAfter) {
			if text := pem.EncodeToMemory(block); !bytes.Contains(kept, text) {
				kept = append(kept, text...)
			}
		}
	}
	for _, certificates := range [][]byte{bundle, ca} {
		for {
			var block *pem.Block
			if block, certificates = pem.Decode(certificates); block == nil {
				break
			}
			add(block)
		}
	}
	return kept
}

// trusts tells why an API server that is told so of a webhook would not believe the certificate that is served there; nil if
// it does.
func trusts(told admissionregistrationv1.WebhookClientConfig, served *tls.Certificate, now time.Time) error {
	options := x509.VerifyOptions{
		DNSName: host(told), Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: now,
	}
	if !options.Roots.AppendCertsFromPEM(told.CABundle) {
		return errors.New("it has no certificate to trust")
	}
	var chain []*x509.Certificate
	for _, der := range served.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		chain = append(chain, c)
		options.Intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(options)
	return err
}

// host is the name that a webhook's certificate must have.
func host(told admissionregistrationv1.WebhookClientConfig) string {
	if told.Service != nil {
		return told.Service.Name + "." + told.Service.Namespace + ".svc"
	}
	if told.URL == nil {
		return ""
	}
	address, err := url.Parse(*told.URL)
	if err != nil {
		return ""
	}
	return address.Hostname()
}
