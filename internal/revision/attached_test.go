package revision

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/test/gen"
)

// A source that confrev attached says so, and can be detached from all that confrev made own it.
func TestASourceRemembersThatItWasAttached(t *testing.T) {
	objects, owners := replicaSets(MaxOwners + 1)
	for name, lacks := range map[string][]Owner{"to its users": owners[:2], "to the anchor": owners} {
		t.Run(name, func(t *testing.T) {
			other := Owner{APIVersion: "v1", Kind: "Other", Name: "other", UID: "9"}
			source := gen.ConfigMap(appX, map[string]string{"k": "v"})
			source.OwnerReferences = append(source.OwnerReferences, other.reference())
			source.Annotations = map[string]string{"other": "x", keys.Attach: "true"}
			source.Finalizers = []string{keys.ProtectFinalizer, "example.com/keep"}
			store, c, sent := storeOf(t, append([]client.Object{source, anchorObject(ours)}, objects...)...)
			before := metadataOf(t, c)
			if Attached(before) {
				t.Error("it was attached before")
			}
			if _, err := store.Attach(t.Context(), before, lacks); err != nil {
				t.Fatal(err)
			}
			attached := metadataOf(t, c)
			if !Attached(attached) || attached.Annotations["other"] != "x" || len(attached.OwnerReferences) < 2 || len(*sent) != 1 {
				t.Fatalf("attached: %+v in %d writes", attached.ObjectMeta, len(*sent))
			}
			if err := store.Detach(t.Context(), before, nil); !IsChanged(err) {
				t.Errorf("one that changed meanwhile: %v", err)
			}
			if err := store.Detach(t.Context(), attached, []string{"example.com/keep"}); err != nil {
				t.Fatal(err)
			}
			got := metadataOf(t, c)
			if Attached(got) || !cmp.Equal(map[string]string{"other": "x", keys.Attach: "true"}, got.Annotations) ||
				!cmp.Equal([]string{"other"}, ownerNames(got)) || !cmp.Equal([]string{"example.com/keep"}, got.Finalizers) {
				t.Errorf("detached: %+v", got.ObjectMeta)
			}
		})
	}
}

func TestARevisionIsNotMarkedAsAttached(t *testing.T) {
	objects, owners := replicaSets(1)
	store, c, _ := storeOf(t, append(objects, ownedBy())...)
	if added, err := store.Attach(t.Context(), metadataOf(t, c), owners); added != 1 || err != nil {
		t.Fatal(added, err)
	}
	if got := metadataOf(t, c); Attached(got) {
		t.Errorf("%v", got.Annotations)
	}
}

// Rules 5 and 11: what changes too often gets no higher numbers either, or every look would be a write.
func TestRefreshKeepsNumberOfThrottledSource(t *testing.T) {
	source := gen.ConfigMap("app", map[string]string{"k": "v"})
	ref := Ref{pin.ConfigMap, gen.Namespace, "app"}
	tests := map[string]struct {
		earlier int
		want    int64
	}{"it may change": {1, 5}, "it has changed too often": {2, 1}}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			snapshot := snapshotOf(source)
			made := object(source, snapshot, appX, 1)
			c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(source.DeepCopy(), made).
				WithIndex(&corev1.ConfigMap{}, BySource, IndexBySource(pin.ConfigMap)).Build()
			store := NewStore(c, c, c, time.Now, appsKinds{}, 2)
			seen := Observation{Source: plan.Source{Present: true, Hash: snapshot.Hash}, Snapshot: snapshot, noted: map[string]string{appX: snapshot.Version}}
			for i := range test.earlier {
				if err := store.Admit(t.Context(), ref, hashOf(i), int64(i)); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if err := store.Refresh(t.Context(), ref, seen, pin.Pin{Revision: appX, Number: 5}); err != nil {
					t.Fatal(err)
				}
				if got := number(metadataOf(t, c)); got != test.want {
					t.Errorf("number %d, want %d", got, test.want)
				}
			}
			// A version that is only noted is no change.
			now := source.DeepCopy()
			now.Labels = map[string]string{"team": "a"}
			if err := c.Update(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			seen.Snapshot.Version = version(now)
			if err := store.Refresh(t.Context(), ref, seen, pin.Pin{Revision: appX, Number: test.want}); err != nil {
				t.Fatal(err)
			}
			if got := metadataOf(t, c).Annotations[keys.SourceVersion]; got != version(now) {
				t.Errorf("version %q is noted", got)
			}
		})
	}
}
