package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/gate"
	"confrev.io/confrev/internal/keys"
)

const prefix = "/pin-workloads/"

// cluster has the Secret that replicas share and the configurations of webhooks, and a clock.
type cluster struct {
	*testing.T
	client.Client
	at time.Time
}

func newCluster(t *testing.T, data map[string][]byte) *cluster {
	t.Helper()
	hook := func(name string, told admissionregistrationv1.WebhookClientConfig) *admissionregistrationv1.MutatingWebhookConfiguration {
		return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "a", ClientConfig: told}, {Name: "b", ClientConfig: told}}}
	}
	service := &admissionregistrationv1.ServiceReference{Namespace: "confrev-system", Name: "confrev"}
	return &cluster{T: t, at: now, Client: fake.NewClientBuilder().WithObjects(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "confrev-system", Name: "ca"}, Data: data},
		hook("pin", admissionregistrationv1.WebhookClientConfig{Service: service}),
		hook("resolve", admissionregistrationv1.WebhookClientConfig{URL: new("https://localhost:9443/resolve-pins")}),
	).WithInterceptorFuncs(interceptor.Funcs{Patch: patchChecked}).Build()}
}

// patchChecked refuses what the API server refuses as a Service's path, for which a URL's rules are not enough.
func patchChecked(
	ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	if err := c.Patch(ctx, obj, patch, options...); err != nil {
		return err
	}
	config, ok := obj.(*admissionregistrationv1.MutatingWebhookConfiguration)
	if !ok {
		return nil
	}
	for _, hook := range config.Webhooks {
		if hook.ClientConfig.Service == nil || hook.ClientConfig.Service.Path == nil {
			continue
		}
		for part := range strings.SplitSeq(strings.TrimPrefix(*hook.ClientConfig.Service.Path, "/"), "/") {
			if wrong := validation.IsDNS1123Subdomain(part); len(wrong) > 0 {
				return apierrors.NewInvalid(admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration").GroupKind(), obj.GetName(),
					field.ErrorList{field.Invalid(field.NewPath("webhooks"), part, wrong[0])})
			}
		}
	}
	return nil
}

// replica returns one of several confrevs.
func (c *cluster) replica() *Certificates {
	return &Certificates{
		Client: c, Live: c, Secret: types.NamespacedName{Namespace: "confrev-system", Name: "ca"}, DNSNames: []string{"confrev.confrev-system.svc", "localhost"},
		Configurations: []string{"pin", "resolve", "not-there"}, PathOf: "pin", Prefix: prefix, Now: func() time.Time { return c.at },
	}
}

func (c *cluster) look(replicas ...*Certificates) {
	c.Helper()
	for _, r := range replicas {
		if err := r.look(c.Context()); err != nil {
			c.Fatal(err)
		}
	}
}

func (c *cluster) secret() *corev1.Secret {
	c.Helper()
	s := &corev1.Secret{}
	if err := c.Get(c.Context(), types.NamespacedName{Namespace: "confrev-system", Name: "ca"}, s); err != nil {
		c.Fatal(err)
	}
	return s
}

func (c *cluster) told(name string) admissionregistrationv1.WebhookClientConfig {
	c.Helper()
	config := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := c.Get(c.Context(), types.NamespacedName{Name: name}, config); err != nil {
		c.Fatal(err)
	}
	if a, b := config.Webhooks[0].ClientConfig, config.Webhooks[1].ClientConfig; !bytes.Equal(a.CABundle, b.CABundle) || secretOf(a, prefix) != secretOf(b, prefix) {
		c.Errorf("the webhooks of %s are told different things", name)
	}
	return config.Webhooks[0].ClientConfig
}

// believed fails unless API servers believe what a replica serves.
func (c *cluster) believed(r *Certificates, want bool) {
	c.Helper()
	c.believes(c.told("pin"), r, want)
}

// believes fails unless an API server that was told so believes what a replica serves.
func (c *cluster) believes(told admissionregistrationv1.WebhookClientConfig, r *Certificates, want bool) {
	c.Helper()
	served, err := r.GetCertificate(nil)
	if err != nil {
		c.Fatal(err)
	}
	if err := gate.Trusts(told, served, c.at); (err == nil) != want {
		c.Errorf("believed is to be %v: %v", want, err)
	}
}

// answers returns what a replica says to a request for a path.
func (c *cluster) answers(r *Certificates, path string) int {
	c.Helper()
	recorder := httptest.NewRecorder()
	handler := r.Guard(prefix, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	handler.ServeHTTP(recorder, &http.Request{URL: &url.URL{Path: path}})
	return recorder.Code
}

func (c *cluster) path() string {
	c.Helper()
	if path := c.told("pin").Service.Path; path != nil {
		return *path
	}
	return ""
}

// Authority and path get into each webhook; what is as it should be is not written again. A configuration that is not there is no
// error.
func TestReplicasAgree(t *testing.T) {
	c := newCluster(t, nil)
	one, other := c.replica(), c.replica()
	c.look(one, other)
	before := c.told("pin")
	c.look(one, other)
	c.believed(one, true)
	c.believed(other, true)
	if after := c.told("pin"); !bytes.Equal(after.CABundle, before.CABundle) || !bytes.Equal(after.CABundle, c.secret().Data[caKey]) {
		t.Error("they do not agree on an authority")
	}
	if told := c.told("resolve"); *told.URL != "https://localhost:9443/resolve-pins" || !bytes.Equal(told.CABundle, before.CABundle) {
		t.Errorf("the other webhook is told of %s", *told.URL)
	}
	path := c.path()
	if len(strings.TrimPrefix(path, prefix)) < 50 {
		t.Fatalf("the path is %q", path)
	}
	for _, r := range []*Certificates{one, other} {
		if c.answers(r, path) != http.StatusOK {
			t.Error("a replica does not answer the path that API servers are told of")
		}
		for _, wrong := range []string{"/pin-workloads", prefix, "/", path + "x", path[:len(path)-1], prefix + "x"} {
			if code := c.answers(r, wrong); code != http.StatusNotFound {
				t.Errorf("%s: %d", wrong, code)
			}
		}
	}
	if code := c.answers(c.replica(), prefix); code != http.StatusNotFound {
		t.Errorf("a replica that knows no path yet answers %d", code)
	}
}

// The API server refuses a Service's path with capital letters, which an earlier version made. A refusal is an error, and not taken for
// another replica's write.
func TestAPathThatTheAPIServerRefusesIsRenewed(t *testing.T) {
	c := newCluster(t, nil)
	r := c.replica()
	c.look(r)
	secret := c.secret()
	secret.Data[pathKey] = []byte(strings.Repeat("ABCDEFGH", 6))
	if err := c.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	c.look(r)
	if path := c.path(); path != strings.ToLower(path) || strings.Contains(path, "abcdefgh") {
		t.Errorf("the path is %s", path)
	}
	c.believed(r, true)

	r.Prefix = "/Pin-Workloads/"
	if err := r.look(t.Context()); err == nil || !strings.Contains(err.Error(), "lowercase") {
		t.Errorf("a path that the API server refuses: %v", err)
	}
}

// An authority that a version before made is kept: only the path is added.
func TestAnAuthorityIsKeptAcrossUpgrades(t *testing.T) {
	data, err := makeAuthority(now, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, data)
	r := c.replica()
	c.look(r)
	if !bytes.Equal(c.secret().Data[caKey], data[caKey]) || !bytes.Equal(c.secret().Data[privateKey], data[privateKey]) {
		t.Error("the authority was replaced")
	}
	c.believed(r, true)
}

// An authority is replaced in time, and both are trusted then. API servers are told of a new path when every replica knows it; the
// one before works for an hour.
func TestRenewal(t *testing.T) {
	c := newCluster(t, nil)
	one, other := c.replica(), c.replica()
	c.look(one, other)
	path, old := c.path(), c.secret().Data[caKey]
	c.at = c.at.Add(authorityLife*2/3 + time.Minute)
	c.look(one)
	if bytes.Equal(c.secret().Data[caKey], old) {
		t.Fatal("the authority was not replaced")
	}
	c.believed(one, true)
	if c.path() != path || c.answers(one, path) != http.StatusOK {
		t.Error("API servers were told of the path before every replica knew it")
	}
	c.look(other)
	c.believed(other, true)
	c.at = c.at.Add(pathSpreads)
	c.look(one, other)
	next := c.path()
	if next == path {
		t.Error("API servers are told of the old path still")
	}
	for _, r := range []*Certificates{one, other, c.replica()} {
		c.look(r)
		if c.answers(r, path) != http.StatusOK || c.answers(r, next) != http.StatusOK {
			t.Error("one of the two paths does not work")
		}
	}
	c.at = c.at.Add(pathStays)
	if c.answers(one, path) != http.StatusNotFound || c.answers(one, next) != http.StatusOK {
		t.Error("after an hour the path before works still, or the new one does not")
	}
}

// What is distrusted is dropped at once, with the path.
func TestDistrust(t *testing.T) {
	c := newCluster(t, nil)
	one := c.replica()
	c.look(one)
	path, old := c.path(), c.secret().Data[caKey]
	c.at = c.at.Add(time.Hour)
	distrust := func(at time.Time) {
		secret := c.secret()
		secret.Annotations = map[string]string{keys.DistrustBefore: at.Format(time.RFC3339)}
		if err := c.Update(c.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	distrust(c.at.Add(time.Minute))
	c.look(one)
	if !bytes.Equal(c.secret().Data[caKey], old) {
		t.Fatal("a moment to come counts already")
	}
	distrust(c.at)
	c.look(one)
	c.believed(one, true)
	c.look(one)
	fresh := c.secret().Data[caKey]
	if bytes.Equal(fresh, old) || !bytes.Equal(c.told("pin").CABundle, fresh) || !bytes.Equal(c.told("resolve").CABundle, fresh) {
		t.Error("the old authority is trusted still")
	}
	c.believed(one, true)
	if c.path() == path || c.answers(one, path) != http.StatusNotFound || c.answers(one, c.path()) != http.StatusOK {
		t.Error("the old path works still, or the new one does not")
	}
	c.look(one)
	if !bytes.Equal(c.secret().Data[caKey], fresh) {
		t.Error("it is replaced again and again")
	}
}

// Where something else makes certificates, only the path is confrev's.
func TestOnlyPath(t *testing.T) {
	c := newCluster(t, nil)
	r := c.replica()
	r.OnlyPath = true
	c.look(r)
	if told := c.told("pin"); len(told.CABundle) > 0 || c.answers(r, c.path()) != http.StatusOK {
		t.Errorf("told of %q", told.CABundle)
	}
	if s := c.secret(); len(s.Data[caKey]) > 0 || len(s.Data[privateKey]) > 0 {
		t.Error("it made an authority")
	}
	// It is distrusted without an authority too.
	path := c.path()
	c.at = c.at.Add(time.Hour)
	secret := c.secret()
	secret.Annotations = map[string]string{keys.DistrustBefore: c.at.Format(time.RFC3339)}
	if err := c.Update(c.Context(), secret); err != nil {
		t.Fatal(err)
	}
	c.look(r)
	c.look(r)
	if c.path() == path || c.answers(r, path) != http.StatusNotFound || c.answers(r, c.path()) != http.StatusOK {
		t.Error("the distrusted path works still, or the new one does not")
	}
}

// A path before the present one, in a URL.
func TestPathOfAURL(t *testing.T) {
	told := admissionregistrationv1.WebhookClientConfig{URL: new("https://localhost:9443/pin-workloads")}
	if got := secretOf(told, prefix); got != "" {
		t.Errorf("secret %q", got)
	}
	op := pathOperation(told, "/webhooks/0/clientConfig", prefix+"abc")
	if op.Value != "https://localhost:9443/pin-workloads/abc" || op.Path != "/webhooks/0/clientConfig/url" {
		t.Errorf("%v", op)
	}
	told.URL = new("https://localhost:9443/pin-workloads/abc")
	if got := secretOf(told, prefix); got != "abc" {
		t.Errorf("secret %q", got)
	}
}

// The certificate is for servers alone, by their names and addresses, and cannot sign others.
func TestIssue(t *testing.T) {
	data, err := makeAuthority(now, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := readAuthority(data)
	if err != nil {
		t.Fatal(err)
	}
	made, err := a.issue([]string{"confrev.confrev-system.svc", "localhost", "10.0.0.7", "fd00::7"}, now)
	if err != nil {
		t.Fatal(err)
	}
	if made.Leaf.IsCA || len(made.Leaf.ExtKeyUsage) != 1 || made.Leaf.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth {
		t.Errorf("%+v", made.Leaf)
	}
	for address, want := range map[string]bool{
		"https://localhost:9443": true, "https://10.0.0.7:9443/resolve-pins": true, "https://[fd00::7]:9443": true, "https://10.0.0.8:9443": false,
	} {
		told := admissionregistrationv1.WebhookClientConfig{URL: &address, CABundle: data[caKey]}
		if err := gate.Trusts(told, made, now); (err == nil) != want {
			t.Errorf("at %s: %v", address, err)
		}
	}
	if !a.issued(made, now) || a.issued(made, now.Add(certificateLife*2/3+time.Second)) || a.issued(nil, now) || a.issued(&tls.Certificate{Leaf: a.certificate}, now.Add(authorityLife)) {
		t.Error("it is renewed too early or too late")
	}
	for name, broken := range map[string]map[string][]byte{
		"nothing": nil, "no key": {caKey: data[caKey], certificateKey: data[caKey]},
		"two certificates": {caKey: []byte("x"), certificateKey: data[caKey], privateKey: data[privateKey]},
		"no PEM":           {caKey: []byte("x"), certificateKey: []byte("x"), privateKey: []byte("x")},
	} {
		if _, err := readAuthority(broken); err == nil {
			t.Errorf("%s is taken for an authority", name)
		}
	}
}
