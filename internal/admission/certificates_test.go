package admission

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

var now = time.Unix(1_800_000_000, 0)

// certificate makes one that is valid until an hour from now, or has been until then.
func certificate(t *testing.T, until time.Duration) []byte {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-2 * time.Hour), NotAfter: now.Add(until)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// During a rotation both authorities are trusted; what has expired goes.
func TestWithAuthority(t *testing.T) {
	before, next, expired := certificate(t, time.Hour), certificate(t, time.Hour), certificate(t, -time.Hour)
	join := func(all ...[]byte) []byte { return bytes.Join(all, nil) }
	tests := map[string]struct{ bundle, ca, want []byte }{
		"the first":                 {nil, next, next},
		"it is there already":       {next, next, next},
		"a second":                  {before, next, join(before, next)},
		"one that has expired goes": {join(expired, before), next, join(before, next)},
		"what is no certificate":    {[]byte("x"), next, next},
		"no authority yet":          {before, nil, before},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := withAuthority(test.bundle, test.ca, now); !bytes.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// The authority gets into each webhook of a configuration; a configuration that is not there is no error.
func TestInject(t *testing.T) {
	ca := certificate(t, time.Hour)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "confrev-system", Name: "ca"}, Data: map[string][]byte{caKey: ca}}
	config := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "pin"}, Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "a"}, {Name: "b"}}}
	c := fake.NewClientBuilder().WithObjects(secret, config).Build()
	i := &Injector{Client: c, Live: c, Secret: types.NamespacedName{Namespace: "confrev-system", Name: "ca"},
		Configurations: []string{"pin", "not-there"}, Now: func() time.Time { return now }}
	for range 2 {
		if err := i.inject(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Get(t.Context(), types.NamespacedName{Name: "pin"}, config); err != nil {
		t.Fatal(err)
	}
	for _, hook := range config.Webhooks {
		if !bytes.Equal(hook.ClientConfig.CABundle, ca) {
			t.Errorf("webhook %s trusts %q", hook.Name, hook.ClientConfig.CABundle)
		}
	}
	if config.ResourceVersion != "1000" {
		t.Errorf("written more than once: resourceVersion %s", config.ResourceVersion)
	}
}
