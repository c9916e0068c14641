package revision

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/gen"
)

// claiming makes what says that it is a revision of app with some value, and has another.
func claiming(name, claimed, value string) *corev1.ConfigMap {
	made := gen.ConfigMap(name, map[string]string{"k": value})
	made.Labels = map[string]string{keys.Content: string(hashOfValue(claimed))}
	digests, _ := content.FromConfigMap(gen.ConfigMap("", map[string]string{"k": claimed})).Digests().Text()
	made.Annotations = map[string]string{keys.SourceName: "app", keys.Number: "7", keys.KeyDigests: digests}
	made.Immutable = new(true)
	return made
}

func hashOfValue(value string) content.Hash {
	return content.FromConfigMap(gen.ConfigMap("", map[string]string{"k": value})).Hash()
}

func nameOfValue(value string, salt int) string {
	return content.RevisionName("app", hashOfValue(value), salt)
}

// observing makes a Store on a fake API server that counts which objects' data is read.
func observing(t *testing.T, objects ...client.Object) (*Store, client.Client, map[string]int) {
	t.Helper()
	reads := map[string]int{}
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).
		WithIndex(&corev1.ConfigMap{}, BySource, IndexBySource(pin.ConfigMap)).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if _, whole := obj.(*corev1.ConfigMap); whole {
					reads[key.Name]++
				}
				return c.Get(ctx, key, obj, opts...)
			},
		}).Build()
	return NewStore(c, c, c, time.Now, appsKinds{}, 10), c, reads
}

func observe(t *testing.T, s *Store, c client.Client, pinned string) Observation {
	t.Helper()
	ref := Ref{pin.ConfigMap, gen.Namespace, "app"}
	meta := NewMetadata(pin.ConfigMap)
	if err := c.Get(t.Context(), ref.key(), meta); err != nil {
		t.Fatal(err)
	}
	seen, err := s.Observe(t.Context(), ref, meta, pinned)
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// Rule 20: what a label claims is believed only as far as the name or the data bears it out.
func TestWhatARevisionHoldsIsProven(t *testing.T) {
	mutable := claiming(nameOfValue("b", 0), "b", "b")
	mutable.Immutable = nil
	mutable.Labels[keys.Content] = "v1-" + string(hashOfValue("c"))[3:]
	tests := map[string]struct {
		made *corev1.ConfigMap
		// hash is what it is found to hold; "" when it is no revision.
		hash  content.Hash
		reads int
	}{
		"a true one of other content":          {claiming(nameOfValue("b", 0), "b", "b"), hashOfValue("b"), 0},
		"a true one with another salt":         {claiming(nameOfValue("b", 5), "b", "b"), hashOfValue("b"), 0},
		"one with the present content":         {claiming(nameOfValue("a", 0), "a", "a"), hashOfValue("a"), 1},
		"a name that says nothing":             {claiming("app-bcdfghjklm", "a", "evil"), hashOfValue("evil"), 1},
		"the name of another content":          {claiming(nameOfValue("b", 0), "a", "b"), hashOfValue("b"), 1},
		"its data may change, and it lies":     {mutable, "", 1},
		"a name of another form":               {claiming("app-x", "a", "a"), "", 0},
		"its name bears out a label that lies": {claiming(nameOfValue("a", 0), "a", "evil"), hashOfValue("evil"), 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			store, c, reads := observing(t, gen.ConfigMap("app", map[string]string{"k": "a"}), test.made)
			var seen Observation
			for range 2 {
				seen = observe(t, store, c, "")
			}
			if reads[test.made.Name] != test.reads {
				t.Errorf("read %d times, want %d", reads[test.made.Name], test.reads)
			}
			if test.hash == "" {
				if len(seen.Revisions) > 0 {
					t.Errorf("taken for a revision: %+v", seen.Revisions)
				}
				return
			}
			if len(seen.Revisions) != 1 || seen.Revisions[0].Hash != test.hash {
				t.Errorf("revisions %+v, want %s", seen.Revisions, test.hash)
			}
		})
	}
}

// Rules 8, 9 and 20: one that has the name of the content and other data is not pinned, and is left as it is.
func TestAForgedRevisionIsNeverPinned(t *testing.T) {
	lie := claiming(nameOfValue("a", 0), "a", "evil")
	store, c, _ := observing(t, gen.ConfigMap("app", map[string]string{"k": "a"}), lie)
	ref := Ref{pin.ConfigMap, gen.Namespace, "app"}
	for range 3 {
		seen := observe(t, store, c, "")
		if seen.Name != nameOfValue("a", 1) {
			t.Errorf("the revision would be %s", seen.Name)
		}
		p, _, err := store.Ensure(t.Context(), ref, seen, 1, Owner{})
		if err != nil || p.Revision != nameOfValue("a", 1) {
			t.Fatalf("pinned %s: %v", p, err)
		}
		if err := store.Refresh(t.Context(), ref, seen, pin.Pin{Revision: lie.Name, Number: 9}); err != nil {
			t.Fatal(err)
		}
	}
	got := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(lie), got); err != nil || number(got) != 7 || len(got.OwnerReferences) > 0 {
		t.Errorf("it was written: %+v, %v", got.ObjectMeta, err)
	}
}

// Rule 20: that a revision has the source's present content is believed of the one that the template pins, and of no other.
func TestSourceVersionCountsOnPinnedRevisionOnly(t *testing.T) {
	source := gen.ConfigMap("app", map[string]string{"k": "a"})
	lie := claiming(nameOfValue("evil", 0), "evil", "evil")
	lie.Annotations[keys.SourceVersion] = version(source)
	for pinned, want := range map[string]content.Hash{"": hashOfValue("a"), lie.Name: hashOfValue("evil")} {
		store, c, reads := observing(t, source.DeepCopy(), lie.DeepCopy())
		if seen := observe(t, store, c, pinned); seen.Hash != want {
			t.Errorf("pinned %q: the source has %s, want %s", pinned, seen.Hash, want)
		}
		if got := reads["app"]; got != map[bool]int{true: 1, false: 0}[pinned == ""] {
			t.Errorf("pinned %q: the source was read %d times", pinned, got)
		}
	}
}

// Rules 12 and 13: what is not proven, or has a name that does not follow from its content, is not deleted and gets no owners.
func TestOnlyDerivedRevisionsAreDeletedAndOwned(t *testing.T) {
	attached := gen.ConfigMap("other", nil)
	attached.Annotations = map[string]string{keys.Attach: "true", keys.Attached: string(attached.UID)}
	tests := map[string]struct {
		made *corev1.ConfigMap
		goes bool
	}{
		"a true one":                             {claiming(nameOfValue("a", 3), "a", "a"), true},
		"a true one under a label that lies":     {claiming(nameOfValue("a", 3), "b", "a"), true},
		"the name of other content":              {claiming(nameOfValue("a", 0), "a", "b"), false},
		"a name of some other tool":              {claiming("app-bcdfghjklm", "a", "a"), false},
		"a source that never had users":          {attached, false},
		"a source with a label and nothing else": {claiming("app", "a", "a"), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			store, c, _ := observing(t, test.made)
			meta := Metadata(Ref{pin.ConfigMap, gen.Namespace, test.made.Name})
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(test.made), meta); err != nil {
				t.Fatal(err)
			}
			store.Sight(meta)
			store.now = func() time.Time { return time.Now().Add(time.Hour) }
			deleted, _, err := store.Sweep(t.Context(), meta, time.Minute, func(context.Context) (bool, error) { return false, nil })
			if err != nil || deleted != test.goes {
				t.Errorf("deleted: %v, %v", deleted, err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(test.made), meta); apierrors.IsNotFound(err) != test.goes {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
	objects, owners := replicaSets(1)
	lie := claiming("app-bcdfghjklm", "a", "a")
	store, c, _ := observing(t, append(objects, lie)...)
	meta := NewMetadata(pin.ConfigMap)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(lie), meta); err != nil {
		t.Fatal(err)
	}
	if added, err := store.Attach(t.Context(), meta, owners); added != 0 || err != nil {
		t.Errorf("%d owners, %v", added, err)
	}
}

// Rule 5: a cache that lags behind raises no number and pins nothing that the source no longer has.
func TestRefreshIgnoresRemovedContent(t *testing.T) {
	source := gen.ConfigMap("app", map[string]string{"k": "a"})
	made := claiming(nameOfValue("a", 0), "a", "a")
	store, c, _ := observing(t, source, made)
	ref := Ref{pin.ConfigMap, gen.Namespace, "app"}
	seen := observe(t, store, c, made.Name)
	now := source.DeepCopy()
	now.Data["k"] = "c"
	if err := c.Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if err := store.Refresh(t.Context(), ref, seen, pin.Pin{Revision: made.Name, Number: 9}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Ensure(t.Context(), ref, seen, 9, Owner{}); !IsChanged(err) {
		t.Errorf("pinned nevertheless: %v", err)
	}
	got := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(made), got); err != nil || number(got) != 7 {
		t.Errorf("number %d, %v", number(got), err)
	}
}

// withKeys returns an object with so many keys.
func withKeys(obj *corev1.ConfigMap, n int) *corev1.ConfigMap {
	obj.Data, obj.BinaryData = map[string]string{}, map[string][]byte{}
	for i := range n / 2 {
		obj.Data[fmt.Sprint("d", i)] = "v"
	}
	for i := range n - n/2 {
		obj.BinaryData[fmt.Sprint("b", i)] = nil
	}
	return obj
}

// Rule 11: a source with too many keys is not followed, and what is forged with as many is not taken for a revision.
func TestTooManyKeys(t *testing.T) {
	for name, test := range map[string]struct {
		source, forged int
		follows        bool
	}{
		"as many as there may be": {MaxKeys, 1, true},
		"one more":                {MaxKeys + 1, 1, false},
		"a forged revision":       {1, 40_000, true},
	} {
		t.Run(name, func(t *testing.T) {
			source := withKeys(gen.ConfigMap("app", nil), test.source)
			source.UID, source.ResourceVersion = "uid", "1"
			forged := withKeys(claiming(nameOfValue("b", 0), "b", "b"), test.forged)
			forged.UID = "uid of the forged one"
			delete(forged.Annotations, keys.KeyDigests)
			store, c, reads := observing(t, source, forged)
			ref := Ref{pin.ConfigMap, gen.Namespace, "app"}
			meta := Metadata(ref)
			if err := c.Get(t.Context(), ref.key(), meta); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				seen, err := store.Observe(t.Context(), ref, meta, "")
				terminal, _ := errors.AsType[*notice.TerminalError](err)
				if follows := err == nil; follows != test.follows || !follows && (terminal == nil || terminal.Reason != "TooBig" || !strings.Contains(terminal.Text, "configmap/app has 10001 keys")) {
					t.Error(err)
				}
				if got := seen.Exists(forged.Name); err == nil && got != (test.forged <= MaxKeys) {
					t.Errorf("the forged one is a revision: %v", got)
				}
			}
			if reads[forged.Name] > 1 {
				t.Errorf("the forged one was read %d times", reads[forged.Name])
			}
		})
	}
}
