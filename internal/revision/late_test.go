package revision

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/gen"
)

// A revision that was just created exists, although the cache does not show it yet: looking for it would cost two requests each time. It
// does not for a workload that pins another, for another process, or once the cache has had time to show it.
func TestARevisionThatTheCacheDoesNotShowYet(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(gen.App("a")).Build()
	cached := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(gen.App("a")).
		WithIndex(&corev1.ConfigMap{}, BySource, IndexBySource(pin.ConfigMap)).Build()
	now := time.Now()
	store := func() *Store { return NewStore(cached, c, c, func() time.Time { return now }, appsKinds{}, 10) }
	ref, s := Ref{pin.ConfigMap, gen.Namespace, "app"}, store()
	look := func(s *Store, pinned string) Observation {
		t.Helper()
		meta := Metadata(ref)
		if err := c.Get(t.Context(), ref.key(), meta); err != nil {
			t.Fatal(err)
		}
		seen, err := s.Observe(t.Context(), ref, meta, pinned)
		if err != nil {
			t.Fatal(err)
		}
		return seen
	}
	seen := look(s, "")
	made, created, err := s.Ensure(t.Context(), ref, seen, 1, Owner{})
	if err != nil || !created {
		t.Fatalf("%s, created: %v, %v", made, created, err)
	}
	if !look(s, made.Revision).Exists(made.Revision) {
		t.Error("it does not exist")
	}
	if look(s, "other").Exists(made.Revision) {
		t.Error("it exists for a workload that pins another")
	}
	if look(store(), made.Revision).Exists(made.Revision) {
		t.Error("it exists for another process")
	}
	now = now.Add(maxLag)
	if look(s, made.Revision).Exists(made.Revision) {
		t.Error("it still exists, although the cache has had time to show it")
	}
}
