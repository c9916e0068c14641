package webhook

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/gate"
)

// An API server that learns late of a new authority believes both replicas, whichever of them made it, until it must have learned of it. So do all as
// long as the new authority cannot be written.
func TestANewAuthoritySpreadsBeforeItsCertificatesAreServed(t *testing.T) {
	c := newCluster(t, nil)
	one, other := c.replica(), c.replica()
	c.look(one, other)
	late := c.told("pin")
	c.at = c.at.Add(authorityLife*2/3 - 24*time.Hour)
	c.look(one, other)
	c.believes(late, one, true)
	c.at = c.at.Add(2 * 24 * time.Hour)
	c.look(one, other)
	if !bytes.Contains(c.told("pin").CABundle, c.secret().Data[caKey]) || bytes.Equal(c.told("pin").CABundle, late.CABundle) {
		t.Fatal("API servers are not told of the new authority at once")
	}
	for range int(pathSpreads / lookEvery) {
		c.look(one, other)
		c.believes(late, one, true)
		c.believes(late, other, true)
		c.at = c.at.Add(lookEvery)
	}
	c.look(one, other)
	for _, r := range []*Certificates{one, other} {
		c.believes(late, r, false)
		c.believed(r, true)
	}
}

// The present certificate is served until it ends if API servers cannot be told of a new authority, and no longer if they do not trust it any more.
func TestTheCertificateBeforeIsServedWhileOnlyThatIsTrusted(t *testing.T) {
	c := newCluster(t, nil)
	r := c.replica()
	c.look(r)
	before, err := r.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Client = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{Patch: func(
		context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption,
	) error {
		return errors.New("it may not")
	}})
	secret := c.secret()
	delete(secret.Data, caKey)
	if err := c.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	for c.at = c.at.Add(time.Hour); c.at.Add(lookEvery).Before(before.Leaf.NotAfter); c.at = c.at.Add(8 * time.Hour) {
		if err := r.look(t.Context()); err == nil {
			t.Fatal("it could write")
		}
		c.believed(r, true)
	}
	r.Client = c
	c.look(r)
	c.believed(r, true)

	// As after the chart was uninstalled and installed.
	for _, name := range []string{"pin", "resolve"} {
		config := &admissionregistrationv1.MutatingWebhookConfiguration{}
		if err := c.Get(t.Context(), types.NamespacedName{Name: name}, config); err != nil {
			t.Fatal(err)
		}
		for i := range config.Webhooks {
			config.Webhooks[i].ClientConfig.CABundle = nil
		}
		if err := c.Update(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	secret = c.secret()
	secret.Data = nil
	if err := c.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	c.look(r)
	c.believed(r, true)
}

// An API server whose clock is behind believes a new authority and a new certificate.
func TestAClockThatIsBehind(t *testing.T) {
	c := newCluster(t, nil)
	r := c.replica()
	c.look(r)
	served, err := r.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := gate.Trusts(c.told("pin"), served, c.at.Add(-behind)); err != nil {
		t.Error(err)
	}
}
