// Package gate finds out whether anything resolves pins when pods are created: the chart's admission policies, or the pod webhook.
// If nothing does, confrev pins nothing.
package gate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/metadata"
)

const (
	// settled is how old a policy, or the API servers' trust in the webhook, must be before confrev assumes that every API server acts
	// on it. API servers look for new policies once a second (k8s.io/apiserver/pkg/admission/plugin/policy/generic), and watch webhook
	// configurations. Pods that are created before then are refused, or their pins are not resolved.
	settled = 5 * time.Second
	// The intervals of checks. While the gate is open, it checks only to notice that something was removed.
	lookClosed = 500 * time.Millisecond
	lookOpen   = 10 * time.Second
	// retryShut is how often to look again at something that waits for a gate that never opens.
	retryShut = 10 * time.Minute
)

// Resolver is what resolves pins when pods are created.
type Resolver string

// The resolvers. If a cluster has both, it is the policy, because the webhook ignores pods that the policy has resolved.
const (
	Policy  Resolver = "policy"
	Webhook Resolver = "webhook"
	None    Resolver = "none"
	// Off is in place of None where confrev is not to be asked about pods at all, because it is limited to single namespaces.
	Off Resolver = "off"
)

// Gate is open while the cluster has something that resolves pins, and the policy that refuses pods whose pins were not resolved.
// Without them, a pin would have no effect, and no one would notice.
type Gate struct {
	reader client.Reader
	prefix string
	now    func() time.Time
	// serving returns the certificate of the webhooks. It is nil if none are served.
	serving func() (*tls.Certificate, error)
	// trusted is since when API servers have trusted the pod webhook; zero while they do not.
	trusted time.Time
	// asked is whether API servers called the pod webhook when that was last seen.
	asked bool

	// ahead are the times that are ahead of this clock.
	ahead map[string]sighting

	// shut is true if the gate never opens.
	shut bool

	mu    sync.Mutex
	state state
}

type state struct {
	by Resolver
	// problem is nil while the gate is open.
	problem error
	// asked is true if API servers call the pod webhook, whether or not it may respond.
	asked bool
}

// NewGate returns a Gate, which is closed until Start has checked. prefix is the beginning of the names of policies and webhooks.
func NewGate(reader client.Reader, prefix string, now func() time.Time) *Gate {
	return &Gate{
		reader: reader, prefix: prefix, now: now, state: state{by: None, problem: ErrUnchecked},
	}
}

// NewShut returns a Gate that never opens, because of a problem: confrev may not even look for policies. Only what needs none is
// pinned.
func NewShut(problem error) *Gate {
	observe(Off)
	return &Gate{shut: true, state: state{by: Off, problem: problem}}
}

// Retry returns how long to wait before asking for the Problem again.
func (g *Gate) Retry() time.Duration {
	if g.shut {
		return retryShut
	}
	return lookClosed
}

// Serves informs the Gate that this process serves the pod webhook, with the certificate that serving returns. It must be called
// before Start.
func (g *Gate) Serves(serving func() (*tls.Certificate, error)) { g.serving = serving }

// ErrUnchecked is the Problem of a Gate that has not looked yet.
var ErrUnchecked = errors.New("pod admission has not been checked yet")

// Problem returns nil while the gate is open, otherwise an error that says what is wrong and what to do.
func (g *Gate) Problem() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state.problem
}

// Check implements a readiness check. It returns the Problem, unless API servers call the pod webhook: then the replica must be ready to
// respond, because pods with pins do not start while no replica is ready.
func (g *Gate) Check(*http.Request) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state.asked {
		return nil
	}
	return g.state.problem
}

// NeedLeaderElection returns false: a replica that may become the leader must know the state of the gate too.
func (*Gate) NeedLeaderElection() bool { return false }

// Start checks at intervals until ctx ends.
func (g *Gate) Start(ctx context.Context) error {
	for {
		seen := g.look(ctx)
		g.set(ctx, seen)
		wait := lookOpen
		if seen.problem != nil {
			wait = lookClosed
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func (g *Gate) set(ctx context.Context, seen state) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.state
	g.state = seen
	observe(seen.by)
	switch {
	case seen.by != None && seen.by != before.by:
		log.FromContext(ctx).Info("pins are resolved as pods are created", "by", string(seen.by))
	case seen.problem != nil && seen.problem.Error() != fmt.Sprint(before.problem):
		log.FromContext(ctx).Info("nothing is pinned for now", "because", seen.problem.Error())
	}
}

// look returns what resolves pins, or what is wrong.
func (g *Gate) look(ctx context.Context) state {
	policy := g.policies(ctx, ByPolicy)
	asked, webhook := g.webhook(ctx)
	seen := state{by: None, asked: asked}
	if seen.problem = g.policies(ctx, Refusing); seen.problem != nil {
		return seen
	}
	switch {
	case policy == nil:
		seen.by = Policy
	case webhook == nil:
		seen.by = Webhook
	case asked || meta.IsNoMatchError(policy):
		seen.problem = webhook
	default:
		seen.problem = policy
	}
	return seen
}

// policies returns what is wrong with an admission policy or its binding, or nil.
func (g *Gate) policies(ctx context.Context, parts []Part) error {
	for _, part := range parts {
		kind, name := part.Kind, g.prefix+part.Suffix
		policy := metadata.New(part.GVK())
		err := g.reader.Get(ctx, client.ObjectKey{Name: name}, policy)
		switch {
		case meta.IsNoMatchError(err):
			return fmt.Errorf("the API server's version is too old: %w", err)
		case apierrors.IsNotFound(err), err == nil && policy.DeletionTimestamp != nil:
			return isMissing(kind, name)
		case err != nil:
			return fmt.Errorf("look up %s %s: %w", kind, name, err)
		}
		if err := g.isSettled(kind, name, policy.CreationTimestamp.Time); err != nil {
			return err
		}
	}
	return nil
}

func (g *Gate) isSettled(kind, name string, since time.Time) error {
	now := g.now()
	if since.After(now) {
		since = g.firstSeen(kind+" "+name, since, now)
	}
	if now.Sub(since) < settled {
		return fmt.Errorf("%s %s is new; waiting until every API server acts on it", kind, name)
	}
	return nil
}

// sighting is when a time was first seen.
type sighting struct{ since, at time.Time }

// firstSeen returns when a time was first seen that is ahead of this clock. Clocks differ: with one that is an hour behind that of the API server,
// nothing would be pinned for an hour after an upgrade of the chart.
func (g *Gate) firstSeen(what string, since, now time.Time) time.Time {
	if known, ok := g.ahead[what]; ok && known.since.Equal(since) && !known.at.After(now) {
		return known.at
	}
	if g.ahead == nil {
		g.ahead = map[string]sighting{}
	}
	g.ahead[what] = sighting{since, now}
	return now
}

func isMissing(kind, name string) error {
	return fmt.Errorf("%s %s is missing, so pins would have no effect; install or upgrade the chart (or see --policy-prefix)", kind, name)
}

// webhook reports whether API servers call confrev about pods, and returns what prevents them from calling it or from trusting it,
// or nil. While it cannot look, the last answer counts: a replica that took itself out of service then would keep pods from starting.
func (g *Gate) webhook(ctx context.Context) (asked bool, problem error) {
	if g.serving == nil {
		return false, errors.New("without MutatingAdmissionPolicy, pins are resolved by confrev's webhook, which is not served; see --webhook-bind-address")
	}
	kind, name := ByWebhook.Kind, g.prefix+ByWebhook.Suffix
	config := &admissionregistrationv1.MutatingWebhookConfiguration{}
	err := g.reader.Get(ctx, client.ObjectKey{Name: name}, config)
	switch {
	case apierrors.IsNotFound(err), err == nil && config.DeletionTimestamp != nil:
		g.trusted, g.asked = time.Time{}, false
		return false, isMissing(kind, name)
	case err != nil:
		return g.asked, fmt.Errorf("look up %s %s: %w", kind, name, err)
	}
	g.asked = true
	if err := g.believed(config); err != nil {
		g.trusted = time.Time{}
		return true, fmt.Errorf("%s %s does not make the API server trust confrev yet: %w", kind, name, err)
	}
	if g.trusted.IsZero() {
		g.trusted = lastChange(config)
	}
	return true, g.isSettled(kind, name, g.trusted)
}

func (g *Gate) believed(config *admissionregistrationv1.MutatingWebhookConfiguration) error {
	certificate, err := g.serving()
	if err != nil {
		return err
	}
	if len(config.Webhooks) == 0 {
		return errors.New("it has no webhooks")
	}
	for _, hook := range config.Webhooks {
		if err := Trusts(hook.ClientConfig, certificate, g.now()); err != nil {
			return err
		}
	}
	return nil
}

// lastChange returns when an object was last changed, according to its own metadata. It saves confrev a wait after a restart, if the
// object has not changed since.
func lastChange(obj metav1.Object) time.Time {
	last := obj.GetCreationTimestamp().Time
	for _, entry := range obj.GetManagedFields() {
		if entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}

// Trusts returns why an API server with this webhook configuration would not trust the served certificate at the time now. It
// returns nil if the API server would trust it.
func Trusts(config admissionregistrationv1.WebhookClientConfig, served *tls.Certificate, now time.Time) error {
	options := x509.VerifyOptions{
		DNSName: host(config), Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: now,
	}
	if !options.Roots.AppendCertsFromPEM(config.CABundle) {
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

// host returns the DNS name that a webhook's certificate must have. It is empty if the configuration names none.
func host(config admissionregistrationv1.WebhookClientConfig) string {
	if config.Service != nil {
		return config.Service.Name + "." + config.Service.Namespace + ".svc"
	}
	if config.URL == nil {
		return ""
	}
	address, err := url.Parse(*config.URL)
	if err != nil {
		return ""
	}
	return address.Hostname()
}

// ResolvePins is the suffix of the names of the chart's objects that resolve pins.
const ResolvePins = "-resolve-pins"

const refuseUnresolved = "-refuse-unresolved-pins"

// Part is an admission object of the chart without which pins have no effect, or no reliable effect.
type Part struct {
	Kind, Suffix string
	// Without says what happens while the object is missing.
	Without string
}

const readsSources = "pins have no effect: pods read the sources themselves"

var (
	// ByPolicy are the parts that resolve pins in the API server.
	ByPolicy = []Part{{"MutatingAdmissionPolicy", ResolvePins, readsSources}, {"MutatingAdmissionPolicyBinding", ResolvePins, readsSources}}
	// ByWebhook is the part that makes the API server call confrev to resolve pins.
	ByWebhook = Part{"MutatingWebhookConfiguration", ResolvePins, readsSources}
	// Refusing are the parts that refuse pods whose pins were not resolved.
	Refusing = []Part{
		{"ValidatingAdmissionPolicy", refuseUnresolved, "pods whose pins were not applied are not refused"},
		{"ValidatingAdmissionPolicyBinding", refuseUnresolved, "pods whose pins were not applied are not refused"},
	}
)

// GVK returns the API kind of a part.
func (p Part) GVK() schema.GroupVersionKind {
	return admissionregistrationv1.SchemeGroupVersion.WithKind(p.Kind)
}

// ResolvesPins reports whether any release of the chart resolves pins when pods are created, with policies or with confrev's
// webhook. It is for callers that only read; the controller pins only while its Gate is open.
func ResolvesPins(ctx context.Context, c client.Reader) (bool, error) {
	webhook, err := ByWebhook.isThere(ctx, c)
	if err != nil || webhook {
		return webhook, err
	}
	for _, part := range ByPolicy {
		if there, err := part.isThere(ctx, c); err != nil || !there {
			return false, err
		}
	}
	return true, nil
}

// isThere reports whether any release of the chart has installed a part.
func (p Part) isThere(ctx context.Context, c client.Reader) (bool, error) {
	list := metadata.NewList(p.GVK())
	err := c.List(ctx, list)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	for i := range list.Items {
		if strings.HasSuffix(list.Items[i].Name, p.Suffix) {
			return true, err
		}
	}
	return false, err
}
