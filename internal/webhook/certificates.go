package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/gate"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/metadata"
)

// Certificates maintains what API servers and the webhook server must agree on. Each replica signs a certificate of its own, in
// memory, with an authority that all replicas share in one Secret, together with the secret path of the workload webhook.
// Authority and path are written to the webhook configurations. Everything is renewed in time, and no restart is needed.
//
// All replicas do the same, and none reverts what another does: certificates are added to a configuration, and removed when they
// have expired or are distrusted. A certificate of a new authority is served once every API server knows that authority. So the server
// is trusted throughout a rotation.
type Certificates struct {
	Client client.Client
	// Live reads from the API server.
	Live   client.Reader
	Secret types.NamespacedName
	// DNSNames are the names, or addresses, in the certificate.
	DNSNames []string
	// Configurations are the names of MutatingWebhookConfigurations. It is not an error if one does not exist.
	Configurations []string
	// PathOf is the configuration whose path, below Prefix, is secret.
	PathOf, Prefix string
	// OnlyPath is true if another component issues the certificates.
	OnlyPath bool
	Now      func() time.Time

	mu      sync.Mutex
	serving *tls.Certificate
	paths   paths
}

// lookEvery is the interval of checks for changes to the Secret and the configurations, which other clients may change too.
const lookEvery = 10 * time.Second

// lookAgain is how long to wait before checking again if another replica wrote first.
const lookAgain = 500 * time.Millisecond

// NeedLeaderElection returns false, because every replica serves the webhooks.
func (*Certificates) NeedLeaderElection() bool { return false }

// GetCertificate returns the certificate to serve.
func (c *Certificates) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.serving == nil {
		return nil, fmt.Errorf("the webhooks have no certificate yet; check that confrev may update Secret %s", c.Secret)
	}
	return c.serving, nil
}

func (c *Certificates) accepts(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.paths.accepts(path, c.Now())
}

// Start checks at intervals until ctx ends.
func (c *Certificates) Start(ctx context.Context) error {
	said := ""
	for {
		wait := lookEvery
		switch err := c.look(ctx); {
		case err == nil:
			said = ""
		case apierrors.IsConflict(err):
			wait = lookAgain
		case err.Error() != said && ctx.Err() == nil:
			log.FromContext(ctx).Error(err, "cannot make the API server trust the webhooks; retrying")
			said = err.Error()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// look updates the Secret, then the configurations, then the served certificate, so that API servers know what is served before
// it is.
func (c *Certificates) look(ctx context.Context) error {
	secret := &corev1.Secret{}
	if err := c.Live.Get(ctx, c.Secret, secret); err != nil {
		return fmt.Errorf("read Secret %s, which the chart creates: %w", c.Secret, err)
	}
	distrusted := distrustBefore(secret, c.Now())
	shared, err := c.share(ctx, secret, distrusted)
	if err != nil {
		return err
	}
	known := readPaths(secret.Data)
	c.mu.Lock()
	c.paths = known
	c.mu.Unlock()
	var errs []error
	var webhooks []told
	for _, name := range c.Configurations {
		some, err := c.inject(ctx, name, shared, known, distrusted)
		webhooks, errs = append(webhooks, some...), append(errs, err)
	}
	err = errors.Join(errs...)
	isSpread := err == nil && c.Now().Sub(known.since) >= pathSpreads
	return errors.Join(err, c.serve(shared, isSpread, webhooks))
}

// distrustBefore returns the time before which authorities are distrusted, if a person set one on the Secret. It ignores a time in
// the future, because every new authority would be older than that.
func distrustBefore(secret *corev1.Secret, now time.Time) time.Time {
	at, err := time.Parse(time.RFC3339, secret.Annotations[keys.DistrustBefore])
	if err != nil || at.After(now) {
		return time.Time{}
	}
	return at
}

// share returns the authority that the replicas share, after renewing the authority and the path if they are due. It returns nil if
// another component issues the certificates.
func (c *Certificates) share(ctx context.Context, secret *corev1.Secret, distrusted time.Time) (*authority, error) {
	now := c.Now().Truncate(time.Second)
	shared, problem := readAuthority(secret.Data)
	known := readPaths(secret.Data)
	renewed := !c.OnlyPath && (problem != nil || !shared.isGood(now, distrusted))
	if !renewed && known.usable() && !known.since.Before(distrusted) {
		return shared, nil
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	if renewed {
		made, err := makeAuthority(now, distrusted)
		if err != nil {
			return nil, err
		}
		maps.Copy(secret.Data, made)
	}
	known.renew(now, known.since.Before(distrusted)).write(secret.Data)
	if err := c.Client.Update(ctx, secret, client.FieldOwner(keys.FieldManager)); err != nil {
		return nil, fmt.Errorf("write Secret %s: %w", c.Secret, err)
	}
	log.FromContext(ctx).Info("renewed what the replicas share", "authority", renewed, "path", true)
	if c.OnlyPath {
		return nil, nil
	}
	return readAuthority(secret.Data)
}

// told is what API servers are told about one webhook: when a look begins, and after it.
type told struct {
	before, after admissionregistrationv1.WebhookClientConfig
}

// serve issues a certificate if that is due. While the present one is trusted, one of a new authority waits until that has spread: API servers
// learn of a configuration after it was written, and each one that does not know the authority yet would refuse pods. An authority is made
// together with a path, and spreads with it.
func (c *Certificates) serve(shared *authority, isSpread bool, webhooks []told) error {
	now := c.Now()
	// There may be no look before this one ends.
	ends := now.Add(lookEvery)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.OnlyPath || shared.issued(c.serving, now) {
		return nil
	}
	made, err := shared.issue(c.DNSNames, now)
	if err != nil {
		return err
	}
	isTrusted := c.serving != nil && ends.Before(c.serving.Leaf.NotAfter)
	for _, w := range webhooks {
		isSpread = isSpread && gate.Trusts(w.before, made, now) == nil
		isTrusted = isTrusted && gate.Trusts(w.before, c.serving, ends) == nil && gate.Trusts(w.after, c.serving, ends) == nil
	}
	if isSpread || !isTrusted {
		c.serving = made
	}
	return nil
}

// inject writes authority and path to one webhook configuration, and returns what it tells API servers.
func (c *Certificates) inject(ctx context.Context, name string, shared *authority, known paths, distrusted time.Time) ([]told, error) {
	config := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := c.Live.Get(ctx, types.NamespacedName{Name: name}, config); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	patch := []jsonpatch.Operation{jsonpatch.NewOperation("test", "/metadata/resourceVersion", config.ResourceVersion)}
	var all []told
	for at, hook := range config.Webhooks {
		tells := told{hook.ClientConfig, hook.ClientConfig}
		pointer := "/webhooks/" + strconv.Itoa(at) + "/clientConfig"
		if !c.OnlyPath {
			bundle := withAuthority(hook.ClientConfig.CABundle, shared.pem, c.Now(), distrusted)
			if tells.after.CABundle = bundle; !bytes.Equal(bundle, hook.ClientConfig.CABundle) {
				patch = append(patch, jsonpatch.NewOperation("add", pointer+"/caBundle", bundle))
			}
		}
		if name == c.PathOf {
			told := secretOf(hook.ClientConfig, c.Prefix)
			if want := known.written(told, c.Now()); want != told {
				patch = append(patch, pathOperation(hook.ClientConfig, pointer, c.Prefix+want))
			}
		}
		all = append(all, tells)
	}
	if len(patch) == 1 {
		return all, nil
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	err = c.Client.Patch(ctx, config, client.RawPatch(types.JSONPatchType, data), client.FieldOwner(keys.FieldManager))
	if metadata.TestFailed(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		// Another replica wrote first, or the chart is being upgraded. The next look will show.
		return all, nil
	}
	if err != nil {
		return all, fmt.Errorf("write authority and path to MutatingWebhookConfiguration %s: %w", name, err)
	}
	log.FromContext(ctx).Info("the API server trusts the webhook", "configuration", name)
	return all, nil
}

// withAuthority adds a certificate to a bundle, and removes those that have expired, are distrusted or cannot be read.
func withAuthority(bundle, ca []byte, now, distrusted time.Time) []byte {
	var kept []byte
	add := func(block *pem.Block) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !now.Before(c.NotAfter) || c.NotBefore.Before(distrusted) {
			return
		}
		if text := pem.EncodeToMemory(block); !bytes.Contains(kept, text) {
			kept = append(kept, text...)
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
