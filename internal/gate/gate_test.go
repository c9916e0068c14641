package gate

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const service = "confrev.confrev-system.svc"

var now = time.Unix(1_800_000_000, 0)

// authorityOf makes an authority, and a certificate that it signed for the given names.
func authorityOf(t *testing.T, names ...string) (ca []byte, signed *tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: names, NotBefore: root.NotBefore, NotAfter: root.NotAfter}
	rootDER, rootErr := x509.CreateCertificate(rand.Reader, root, root, key.Public(), key)
	leafDER, leafErr := x509.CreateCertificate(rand.Reader, leaf, root, key.Public(), key)
	if err := errors.Join(rootErr, leafErr); err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER}),
		&tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: key}
}

// created makes an object of so many seconds ago.
func created[T client.Object](obj T, name string, seconds int) T {
	obj.SetName(name)
	obj.SetCreationTimestamp(metav1.NewTime(now.Add(-time.Duration(seconds) * time.Second)))
	return obj
}

func resolving(seconds int) []client.Object {
	return []client.Object{
		created(&admissionregistrationv1.MutatingAdmissionPolicy{}, "confrev-resolve-pins", seconds),
		created(&admissionregistrationv1.MutatingAdmissionPolicyBinding{}, "confrev-resolve-pins", seconds),
	}
}

func refusing(seconds int) []client.Object {
	return []client.Object{
		created(&admissionregistrationv1.ValidatingAdmissionPolicy{}, "confrev-refuse-unresolved-pins", seconds),
		created(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, "confrev-refuse-unresolved-pins", seconds),
	}
}

// asking makes the configuration of the pod webhook, which trusts ca since so many seconds.
func asking(ca []byte, since int) []client.Object {
	config := created(&admissionregistrationv1.MutatingWebhookConfiguration{}, "confrev-resolve-pins", 3600)
	changed := metav1.NewTime(now.Add(-time.Duration(since) * time.Second))
	config.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "helm", Operation: metav1.ManagedFieldsOperationApply}, {Manager: "confrev", Operation: metav1.ManagedFieldsOperationUpdate, Time: &changed}}
	for i := range config.ManagedFields {
		entry := &config.ManagedFields[i]
		entry.APIVersion, entry.FieldsType = "admissionregistration.k8s.io/v1", "FieldsV1"
		entry.FieldsV1 = metav1.NewFieldsV1(`{}`)
	}
	config.Webhooks = []admissionregistrationv1.MutatingWebhook{{
		Name: "resolve-pins.confrev.io",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			CABundle: ca, Service: &admissionregistrationv1.ServiceReference{Name: "confrev", Namespace: "confrev-system"}},
	}}
	return []client.Object{config}
}

// readerOf reads the objects; without policies, as an API server that does not serve MutatingAdmissionPolicy.
func readerOf(policies bool, objects ...[]client.Object) client.Reader {
	var all []client.Object
	for _, some := range objects {
		all = append(all, some...)
	}
	return fake.NewClientBuilder().WithObjects(all...).WithReturnManagedFields().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
			if gvk := obj.GetObjectKind().GroupVersionKind(); !policies && strings.HasPrefix(gvk.Kind, "MutatingAdmissionPolicy") {
				return &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
			}
			return c.Get(ctx, key, obj, options...)
		},
	}).Build()
}

func TestGate(t *testing.T) {
	ca, certificate := authorityOf(t, service)
	stranger, _ := authorityOf(t, service)
	_, misnamed := authorityOf(t, "other")
	tests := map[string]struct {
		old     bool // the API server does not serve MutatingAdmissionPolicy
		objects [][]client.Object
		// serving is the certificate of the webhooks; noServer is true where there are none.
		serving  *tls.Certificate
		noServer bool
		want     Resolver
		problem  string
		ready    bool
	}{
		"the policy": {objects: [][]client.Object{resolving(5), refusing(5)}, want: Policy, ready: true},
		"the policy, and no webhooks are served": {
			objects: [][]client.Object{resolving(5), refusing(5)}, noServer: true, want: Policy, ready: true},
		"a new policy": {
			objects: [][]client.Object{resolving(4), refusing(5)}, problem: "MutatingAdmissionPolicy confrev-resolve-pins is new"},
		"no policy": {objects: [][]client.Object{refusing(5)}, problem: "MutatingAdmissionPolicy confrev-resolve-pins is missing"},
		"a policy without a binding": {
			objects: [][]client.Object{resolving(5)[:1], refusing(5)}, problem: "MutatingAdmissionPolicyBinding confrev-resolve-pins is missing"},
		"nothing refuses": {
			objects: [][]client.Object{resolving(5)}, problem: "ValidatingAdmissionPolicy confrev-refuse-unresolved-pins is missing"},
		"what refuses is new": {
			objects: [][]client.Object{resolving(5), refusing(4)}, problem: "ValidatingAdmissionPolicy confrev-refuse-unresolved-pins is new"},

		"the webhook": {old: true, objects: [][]client.Object{asking(ca, 5), refusing(5)}, want: Webhook, ready: true},
		"the webhook where there could be a policy": {
			objects: [][]client.Object{asking(ca, 5), refusing(5)}, want: Webhook, ready: true},
		"both":                         {objects: [][]client.Object{resolving(5), asking(ca, 5), refusing(5)}, want: Policy, ready: true},
		"the policy is on its way out": {objects: [][]client.Object{resolving(5)[1:], asking(ca, 5), refusing(5)}, want: Webhook, ready: true},
		"the policy is new, the webhook not": {
			objects: [][]client.Object{resolving(1), asking(ca, 5), refusing(5)}, want: Webhook, ready: true},
		"the webhook is not there": {
			old: true, objects: [][]client.Object{refusing(5)}, problem: "MutatingWebhookConfiguration confrev-resolve-pins is missing"},
		"the webhook is not served": {
			old: true, objects: [][]client.Object{asking(ca, 5), refusing(5)}, noServer: true, problem: "see --webhook-bind-address"},
		"the webhook is not trusted yet": {
			old: true, objects: [][]client.Object{asking(nil, 5), refusing(5)}, problem: "it has no certificate to trust", ready: true},
		"something else is trusted": {
			old: true, objects: [][]client.Object{asking(stranger, 5), refusing(5)}, problem: "unknown authority", ready: true},
		"something else is trusted too": {
			old: true, objects: [][]client.Object{asking(append(stranger, ca...), 5), refusing(5)}, want: Webhook, ready: true},
		"the certificate is for another name": {
			old: true, objects: [][]client.Object{asking(ca, 5), refusing(5)}, serving: misnamed, problem: service, ready: true},
		"the webhook has just become trusted": {
			old: true, objects: [][]client.Object{asking(ca, 4), refusing(5)}, problem: "MutatingWebhookConfiguration confrev-resolve-pins is new", ready: true},
		"the webhook alone": {
			old: true, objects: [][]client.Object{asking(ca, 5)}, problem: "ValidatingAdmissionPolicy confrev-refuse-unresolved-pins is missing", ready: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.want == "" {
				test.want = None
			}
			if test.serving == nil {
				test.serving = certificate
			}
			gate := NewGate(readerOf(!test.old, test.objects...), "confrev", func() time.Time { return now })
			if !test.noServer {
				gate.Serves(func() (*tls.Certificate, error) { return test.serving, nil })
			}
			if gate.Problem() == nil || gate.Check(nil) == nil {
				t.Error("open before it was looked at")
			}
			gate.set(t.Context(), gate.look(t.Context()))
			if got := gate.state.by; got != test.want {
				t.Errorf("resolved by %s, want %s", got, test.want)
			}
			for _, by := range []Resolver{Policy, Webhook, None} {
				metric := &dto.Metric{}
				if err := metricResolver.WithLabelValues(string(by)).Write(metric); err != nil || (metric.Gauge.GetValue() == 1) != (by == test.want) {
					t.Errorf("the metric of %s is %v, %v", by, metric.Gauge.GetValue(), err)
				}
			}
			problem := gate.Problem()
			if (problem == nil) != (test.problem == "") || problem != nil && !strings.Contains(problem.Error(), test.problem) {
				t.Errorf("the problem is %v, want %q", problem, test.problem)
			}
			if ready := gate.Check(nil) == nil; ready != test.ready {
				t.Errorf("ready: %v", ready)
			}
		})
	}
}

// A change that leaves the trust as it is, such as a label, is no reason to stop; after a change to the trust, the time starts again.
func TestGateWaitsForNewTrustOnly(t *testing.T) {
	ca, certificate := authorityOf(t, service)
	gate := NewGate(nil, "confrev", func() time.Time { return now })
	gate.Serves(func() (*tls.Certificate, error) { return certificate, nil })
	for _, step := range []struct {
		what string
		// changed is when the configuration was, in seconds before now.
		changed int
		ca      []byte
		want    Resolver
	}{
		{"trusted for long", 60, ca, Webhook},
		{"changed in something else", 1, ca, Webhook},
		{"the trust was removed", 1, nil, None},
		{"it has just been given back", 1, ca, None},
	} {
		gate.reader = readerOf(false, asking(step.ca, step.changed), refusing(60))
		if got := gate.look(t.Context()).by; got != step.want {
			t.Errorf("%s: resolved by %s, want %s", step.what, got, step.want)
		}
	}
	gate.now = func() time.Time { return now.Add(settled) }
	if got := gate.look(t.Context()); got.by != Webhook {
		t.Errorf("later: resolved by %s: %v", got.by, got.problem)
	}
}

// A replica that cannot look at its webhook's configuration stays ready as long as API servers called the webhook when it last could:
// otherwise none would resolve pins, and pods with pins would not start.
func TestAReplicaThatCannotLookStaysReady(t *testing.T) {
	ca, certificate := authorityOf(t, service)
	gone := errors.New("the API server does not answer")
	failing := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return gone
		},
	})
	for name, test := range map[string]struct {
		before client.Reader
		ready  bool
	}{
		"API servers called it": {readerOf(false, asking(ca, 60), refusing(60)), true},
		"policies resolve pins": {readerOf(true, resolving(60), refusing(60)), false},
		"it was never seen":     {failing, false},
	} {
		t.Run(name, func(t *testing.T) {
			gate := NewGate(test.before, "confrev", func() time.Time { return now })
			gate.Serves(func() (*tls.Certificate, error) { return certificate, nil })
			gate.set(t.Context(), gate.look(t.Context()))
			gate.reader = failing
			gate.set(t.Context(), gate.look(t.Context()))
			if gate.Problem() == nil {
				t.Error("it continues to pin without looking")
			}
			if err := gate.Check(nil); (err == nil) != test.ready {
				t.Errorf("ready: %v", err)
			}
		})
	}
}

// With a clock that is an hour behind, the policies seem to be of the future. Then their age counts from when they were first seen, one after the
// other; after a change, it starts again.
func TestGateOpensWithAClockThatIsBehind(t *testing.T) {
	clock := now
	gate := NewGate(readerOf(true, resolving(-3600), refusing(-3600)), "confrev", func() time.Time { return clock })
	if seen := gate.look(t.Context()); seen.problem == nil || !strings.Contains(seen.problem.Error(), "is new") {
		t.Fatalf("at first: %v", seen.problem)
	}
	waited := time.Duration(0)
	for ; gate.look(t.Context()).problem != nil && waited < time.Minute; waited += time.Second {
		clock = clock.Add(time.Second)
	}
	if waited < settled || waited > 4*settled {
		t.Errorf("it opened after %s", waited)
	}
	gate.reader = readerOf(true, resolving(-3700), refusing(-3600))
	if seen := gate.look(t.Context()); seen.problem == nil {
		t.Error("a policy that was replaced counts as old")
	}
	clock = clock.Add(-time.Hour)
	if seen := gate.look(t.Context()); seen.problem == nil {
		t.Error("after a jump of the clock, nothing is known of ages")
	}
}

func TestHost(t *testing.T) {
	address := "https://localhost:9443/resolve-pins"
	tests := map[string]struct {
		told admissionregistrationv1.WebhookClientConfig
		want string
	}{
		"a Service": {admissionregistrationv1.WebhookClientConfig{
			Service: &admissionregistrationv1.ServiceReference{Name: "confrev", Namespace: "confrev-system"}}, service},
		"a URL":   {admissionregistrationv1.WebhookClientConfig{URL: &address}, "localhost"},
		"neither": {admissionregistrationv1.WebhookClientConfig{}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := host(test.told); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
