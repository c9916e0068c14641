package revision

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/gen"
)

// absentHere makes a Store whose cache lacks the source app, and that has these objects live.
func absentHere(t *testing.T, kind pin.Kind, live ...client.Object) (*Store, client.Client, Observation) {
	t.Helper()
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(live...).Build()
	cached := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).
		WithIndex(&corev1.ConfigMap{}, BySource, IndexBySource(pin.ConfigMap)).WithIndex(&corev1.Secret{}, BySource, IndexBySource(pin.Secret)).Build()
	s := NewStore(cached, c, c, time.Now, appsKinds{}, 10)
	seen, err := s.Observe(t.Context(), Ref{kind, gen.Namespace, "app"}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if seen.Present || len(seen.Digests) != 0 || seen.Name == "" {
		t.Fatalf("observed %+v", seen)
	}
	return s, c, seen
}

// Rule 6: its absence is the revision that an empty source would have, of either kind.
func TestTheRevisionOfAnAbsence(t *testing.T) {
	for _, kind := range pin.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			ref := Ref{kind, gen.Namespace, "app"}
			s, c, seen := absentHere(t, kind)
			if seen.Name != content.RevisionName("app", seen.Key.Hash(ref.Source(), ContentOf(empty(ref)).Hash()), 0) {
				t.Errorf("it is called %s", seen.Name)
			}
			made, created, err := s.Ensure(t.Context(), ref, seen, 3, Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "web"})
			if err != nil || !created || made != (pin.Pin{Revision: seen.Name, Number: 3}) {
				t.Fatalf("%s, created: %v, %v", made, created, err)
			}
			got := NewSource(kind)
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: gen.Namespace, Name: made.Revision}, got); err != nil {
				t.Fatal(err)
			}
			if !IsRevision(got) || !isImmutable(got) || len(got.GetOwnerReferences()) != 1 || got.GetAnnotations()[keys.KeyDigests] != "" {
				t.Errorf("made %+v", got)
			}
			again, created, err := s.Ensure(t.Context(), ref, seen, 5, Owner{})
			if err != nil || created || again != (pin.Pin{Revision: seen.Name, Number: 5}) {
				t.Errorf("again: %s, created: %v, %v", again, created, err)
			}
			restored, err := s.Restore(t.Context(), ref.Source(), Ref{kind, gen.Namespace, content.RevisionName("app", seen.Hash, 1)}, 6)
			if err != nil || !restored {
				t.Errorf("restored: %v, %v", restored, err)
			}
		})
	}
}

// Rule 9: a cache that lags behind takes no source for absent, whether or not a revision of its absence exists, and even if the
// source is empty.
func TestALaggingCacheIsNoAbsence(t *testing.T) {
	ref := Ref{pin.ConfigMap, gen.Namespace, "app"}
	for name, data := range map[string]map[string]string{"a source": {"k": "v"}, "an empty source": nil} {
		for _, exists := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				live := []client.Object{gen.ConfigMap("app", data)}
				revision := content.RevisionName("app", ContentOf(empty(ref)).Hash(), 0)
				if exists {
					live = append(live, object(empty(ref), snapshotOf(empty(ref)), revision, 2))
				}
				s, c, seen := absentHere(t, pin.ConfigMap, live...)
				if made, _, err := s.Ensure(t.Context(), ref, seen, 3, Owner{}); !IsChanged(err) {
					t.Errorf("pinned to %s: %v", made, err)
				}
				got := &corev1.ConfigMap{}
				err := c.Get(t.Context(), client.ObjectKey{Namespace: gen.Namespace, Name: revision}, got)
				if exists && (err != nil || number(got) != 2) || !exists && !apierrors.IsNotFound(err) {
					t.Errorf("number %d, %v", number(got), err)
				}
			})
		}
	}
}

// What vanishes between looking and copying is looked at again: it may have been required.
func TestASourceThatVanishesIsNoAbsenceYet(t *testing.T) {
	source := gen.ConfigMap("app", nil)
	s, c, _ := observing(t, source)
	at := &clock{time.Now()}
	s.now = at.now
	seen := observe(t, s, c, "")
	at.at = at.at.Add(fresh)
	if err := c.Delete(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	if made, _, err := s.Ensure(t.Context(), Ref{pin.ConfigMap, gen.Namespace, "app"}, seen, 1, Owner{}); !IsChanged(err) {
		t.Errorf("pinned to %s: %v", made, err)
	}
}
