//go:build reliability

package reliability

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/faults"
)

// The authority's life. confrev renews it after two thirds, and serves certificates of the next one half a minute later. It looks every 10 seconds.
const authorityLife = 200 * time.Second

// late is after how long an API server may learn of a webhook's configuration.
const late = 5 * time.Second

// The authority of the webhooks' certificates ends, and all that it signed. No request goes by, and no pod is refused: by an API server that makes a
// new connection for each request, and by one that learns of the next authority late. All replicas renew it, so it does not matter which of them lives.
func TestCertificatesEndWithTheirAuthority(t *testing.T) {
	resolvePodsByWebhook(t)
	for name, tt := range map[string]struct{ replicas, die int }{
		"one replica": {1, 0}, "two replicas": {2, 0}, "two replicas, and the leader dies before": {2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			begins := time.Now().Add(-authorityLife * 2 / 5).Truncate(time.Second)
			ends := begins.Add(authorityLife)
			old := makeAuthority(t, begins, ends)
			shareAuthority(t, old.secret())
			r := &rotation{world: newWorld(t)}
			if tt.replicas == 1 {
				r.members = []*member{alone(t, "authority", faults.Options{})}
				r.has("A", deployment("web"))
			} else {
				both := newReplicas(t, "authorities")
				r.world, r.members = both.world, []*member{both.leader, both.waiting}
			}
			r.begin()
			for m, leaf := range r.serving() {
				if !leaf.NotAfter.Equal(ends) {
					t.Fatalf("a certificate of %s ends at %s, not with its authority, at %s: this test shows nothing", m.Log, leaf.NotAfter, ends)
				}
			}
			dies := ends.Add(-authorityLife/3 - 5*time.Second)
			for time.Now().Before(ends.Add(late)) {
				if tt.die > 0 && len(r.members) > tt.replicas-tt.die && time.Now().After(dies) {
					r.Must(r.members[0].Kill())
					r.members = r.members[1:]
				}
				r.step()
			}
			r.checkAuthority(old, ends)
		})
	}
}

// Another component issues the certificates: its files are replaced, in one of the replicas all at once, as a kubelet does, in the other one after the other.
// The certificate before ends. No replica starts again, no request goes by, and no pod is refused.
func TestCertificatesAreReplacedOnDisk(t *testing.T) {
	resolvePodsByWebhook(t)
	now := time.Now().Truncate(time.Second)
	ends := now.Add(time.Minute)
	before, next := makeAuthority(t, now.Add(-time.Minute), ends), makeAuthority(t, now, now.Add(time.Hour))
	mounted, plain := t.TempDir(), t.TempDir()
	files := before.issue(t, env.WebhookHost)
	mount(t, mounted, "first", files)
	write(t, plain, "tls.crt", files)
	write(t, plain, "tls.key", files)
	trust(t, before.pem)
	both := newReplicas(t, "files", "--webhook-cert-dir="+mounted, "--webhook-cert-dir="+plain)
	r := &rotation{world: both.world, members: []*member{both.leader, both.waiting}}
	r.begin()
	began := time.Now()
	r.stepUntil(began.Add(late))
	// As cert-manager does: first API servers are told.
	trust(t, slices.Concat(before.pem, next.pem))
	r.stepUntil(time.Now().Add(2 * late))
	files = next.issue(t, env.WebhookHost)
	mount(t, mounted, "second", files)
	write(t, plain, "tls.crt", files)
	r.step()
	write(t, plain, "tls.key", files)
	if time.Now().After(ends) {
		t.Fatalf("the certificates ended at %s, before they were replaced: the machine is too slow for this test", ends)
	}
	r.stepUntil(ends.Add(late))
	for m, leaf := range r.serving() {
		if err := leaf.CheckSignatureFrom(next.certificate); err != nil {
			t.Errorf("%s: the next certificate is not served: %v", m.Log, err)
		}
	}
	t.Logf("%d requests, each with a new connection", r.requests)
}

// API servers whose clocks are behind trust an authority and a certificate that were just made.
func TestCertificatesAreMadeWithAClockAhead(t *testing.T) {
	built, clock, err := cluster.BuildWithClock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	resolvePodsByWebhook(t)
	shareAuthority(t, nil)
	if err := clock.Set(30 * time.Minute); err != nil {
		t.Fatal(err)
	}
	m := prepareBuilt(t, built, "ahead", faults.Options{})
	m.start()
	r := &rotation{world: newWorld(t), members: []*member{m}}
	r.Must(cluster.WaitWebhook(r.Ctx))
	r.has("A", deployment("web"))
	r.begin()
	r.step()
}

// resolvePodsByWebhook makes confrev's webhook resolve pins, so that an API server that cannot reach it or does not trust it refuses pods. Afterwards it
// is as before. A busy machine may take its time to answer: the tests are about requests that cannot be answered.
func resolvePodsByWebhook(t *testing.T) {
	t.Helper()
	values := []string{"settle=" + settle.String(), "grace=" + grace.String()}
	t.Cleanup(func() {
		if err := cluster.Install(context.Background(), values...); err != nil {
			t.Error(err)
		}
	})
	if err := cluster.Install(t.Context(), append(values, "podAdmission=webhook", "webhook.timeoutSeconds=10")...); err != nil {
		t.Fatal(err)
	}
}

// shareAuthority replaces what replicas share, while none runs.
func shareAuthority(t *testing.T, data map[string][]byte) {
	t.Helper()
	secret := &corev1.Secret{}
	err := cluster.Client.Get(t.Context(), types.NamespacedName{Namespace: env.Namespace, Name: "confrev-webhook-ca"}, secret)
	if err == nil {
		secret.Data = data
		err = cluster.Client.Update(t.Context(), secret)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// configurations returns what API servers know of the webhooks.
func configurations(t *testing.T) (all []*admissionregistrationv1.MutatingWebhookConfiguration) {
	t.Helper()
	for _, name := range []string{"confrev-pin-workloads", "confrev-resolve-pins"} {
		config := &admissionregistrationv1.MutatingWebhookConfiguration{}
		if err := cluster.Client.Get(t.Context(), types.NamespacedName{Name: name}, config); err != nil {
			t.Fatal(err)
		}
		all = append(all, config)
	}
	return all
}

// trust makes API servers trust authorities, as cert-manager does.
func trust(t *testing.T, bundle []byte) {
	t.Helper()
	for _, config := range configurations(t) {
		before := config.DeepCopy()
		for i := range config.Webhooks {
			config.Webhooks[i].ClientConfig.CABundle = bundle
		}
		if err := cluster.Client.Patch(t.Context(), config, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
}

// mount brings files as a kubelet does: all at once.
func mount(t *testing.T, dir, version string, files map[string][]byte) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(filepath.Join(dir, ".."+version), 0o700))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		write(t, filepath.Join(dir, ".."+version), name, files)
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); !os.IsExist(err) {
			must(err)
		}
	}
	must(os.Symlink(".."+version, filepath.Join(dir, "..new")))
	must(os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
}

// write replaces one of the files.
func write(t *testing.T, dir, name string, files map[string][]byte) {
	t.Helper()
	err := os.WriteFile(filepath.Join(dir, "new"), files[name], 0o600)
	if err == nil {
		err = os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, name))
	}
	if err != nil {
		t.Fatal(err)
	}
}
