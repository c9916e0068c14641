package revision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/test/gen"
)

// appsKinds knows Deployments and their ReplicaSets.
type appsKinds struct{}

func (appsKinds) IsWorkload(r metav1.OwnerReference) bool { return r.Kind == "Deployment" }
func (appsKinds) IsUser(r metav1.OwnerReference) bool {
	return r.Kind == "Deployment" || r.Kind == "ReplicaSet"
}

// patches notes what a client patches: "configmap/app-x {…}".
type patches []string

// storeOf makes a Store on a fake API server that has the given objects, and notes what is patched there.
func storeOf(t *testing.T, objects ...client.Object) (*Store, client.Client, *patches) {
	t.Helper()
	sent := &patches{}
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			data, err := patch.Data(obj)
			if err != nil || patch.Type() != types.MergePatchType {
				t.Errorf("a patch of type %s: %v", patch.Type(), err)
			}
			*sent = append(*sent, obj.GetName()+" "+string(data))
			return c.Patch(ctx, obj, patch, opts...)
		},
	}).Build()
	return NewStore(c, c, c, time.Now, appsKinds{}, 10), c, sent
}

// replicaSets makes living ReplicaSets, and themselves as owners.
func replicaSets(n int) (objects []client.Object, owners []Owner) {
	for i := range n {
		name := fmt.Sprintf("web-%03d", i)
		rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: gen.Namespace, Name: name, UID: types.UID("uid-" + name)}}
		objects = append(objects, rs)
		owners = append(owners, Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: rs.UID})
	}
	return objects, owners
}

// appX is the name of the revision that ownedBy makes.
var appX = content.RevisionName("app", snapshotOf(gen.ConfigMap("app", map[string]string{"k": "v"})).Hash, 0)

// ownedBy makes a revision with owners.
func ownedBy(owners ...Owner) *corev1.ConfigMap {
	source := gen.ConfigMap("app", map[string]string{"k": "v"})
	made := object(source, snapshotOf(source), appX, 1, owners...)
	made.SetUID("uid-of-app-x")
	return made.(*corev1.ConfigMap)
}

// metadataOf reads a revision as the cache has it.
func metadataOf(t *testing.T, c client.Client) *metav1.PartialObjectMetadata {
	t.Helper()
	meta := NewMetadata(pin.ConfigMap)
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: gen.Namespace, Name: appX}, meta); err != nil {
		t.Fatal(err)
	}
	return meta
}

func ownerNames(meta client.Object) []string {
	var names []string
	for _, o := range meta.GetOwnerReferences() {
		names = append(names, o.Name)
	}
	return names
}

func anchorObject(annotations map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: gen.Namespace, Name: AnchorName, UID: "uid-of-anchor", Annotations: annotations}}
}

var ours = map[string]string{keys.Anchor: "true"}

// Rule 12: all owners that a revision lacks, in one write, on the condition that it is still as it was seen.
func TestAttachAddsTheOwnersThatAreAliveInOneWrite(t *testing.T) {
	objects, owners := replicaSets(5)
	going := objects[3].DeepCopyObject().(client.Object)
	now := metav1.Now()
	going.SetDeletionTimestamp(&now)
	going.SetFinalizers([]string{"example.com/keep"})
	// The third is gone, the fourth is going, and the fifth is not the one of that name any more.
	owners[4].UID = "uid-of-an-earlier-one"
	other := Owner{APIVersion: "v1", Kind: "Other", Name: "other", UID: "9"}
	store, c, sent := storeOf(t, objects[0], objects[1], going, objects[4], ownedBy(other, owners[0]))
	revision := metadataOf(t, c)

	added, err := store.Attach(t.Context(), revision, owners)
	if err != nil || added != 1 || len(*sent) != 1 {
		t.Fatalf("added %d in %d writes: %v", added, len(*sent), err)
	}
	if diff := cmp.Diff([]string{"other", "web-000", "web-001"}, ownerNames(metadataOf(t, c))); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	_, text, _ := strings.Cut((*sent)[0], " ")
	var patch struct {
		Metadata map[string]any `json:"metadata"`
	}
	if err := json.Unmarshal([]byte(text), &patch); err != nil {
		t.Fatal(err)
	}
	if patch.Metadata["uid"] != "uid-of-app-x" || patch.Metadata["resourceVersion"] != revision.ResourceVersion || len(patch.Metadata) != 3 {
		t.Errorf("the patch is not conditional, or has more than owners: %s", text)
	}
	if added, err := store.Attach(t.Context(), metadataOf(t, c), owners[:2]); added != 0 || err != nil || len(*sent) != 1 {
		t.Errorf("attached again: %d, %v, %d writes", added, err, len(*sent))
	}
}

// Rule 12: the garbage collector may take a revision before confrev's cache shows what was written last. An owner that others add meanwhile stays.
func TestAttachDoesNotWaitForTheCache(t *testing.T) {
	objects, owners := replicaSets(2)
	store, c, _ := storeOf(t, objects[0], objects[1], ownedBy())
	seen := metadataOf(t, c)
	for _, owner := range owners {
		if added, err := store.Attach(t.Context(), seen, []Owner{owner}); added != 1 || err != nil {
			t.Errorf("%s: added %d: %v", owner.Name, added, err)
		}
	}
	if added, err := store.Attach(t.Context(), seen, owners); added != 0 || err != nil {
		t.Errorf("what is there already: added %d: %v", added, err)
	}
	if diff := cmp.Diff([]string{"web-000", "web-001"}, ownerNames(metadataOf(t, c))); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	seen.UID = "uid-of-an-earlier-one"
	if _, err := store.Attach(t.Context(), seen, owners[:1]); !IsChanged(err) {
		t.Errorf("another revision of that name: %v", err)
	}
}

// Rule 14.
func TestAnchorReplacesManyOwners(t *testing.T) {
	objects, owners := replicaSets(MaxOwners + 1)
	other := Owner{APIVersion: "v1", Kind: "Other", Name: "other", UID: "9"}
	deployment := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "8"}
	tests := map[string]struct {
		has, lacks []Owner
		anchored   bool
	}{
		"as many as there may be":             {nil, owners[:MaxOwners], false},
		"one too many at once":                {nil, owners, true},
		"one more next to as many":            {owners[:MaxOwners], owners[MaxOwners:], true},
		"the last one that there is room for": {owners[:MaxOwners-1], owners[MaxOwners-1 : MaxOwners], false},
		"as many next to someone else's":      {[]Owner{other}, owners[:MaxOwners], true},
		"as many next to the workload":        {[]Owner{deployment}, owners[:MaxOwners], true},
		"none too many, all there already":    {owners[:MaxOwners], owners[:MaxOwners], false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			store, c, sent := storeOf(t, append(slices.Clone(objects), ownedBy(test.has...), anchorObject(ours))...)
			if _, err := store.Attach(t.Context(), metadataOf(t, c), test.lacks); err != nil {
				t.Fatal(err)
			}
			got := metadataOf(t, c)
			if store.Anchored(got) != test.anchored {
				t.Fatalf("anchored: %v, owners %q", store.Anchored(got), ownerNames(got))
			}
			if len(*sent) > 1 || len(got.OwnerReferences) > MaxOwners {
				t.Errorf("%d writes, %d owners", len(*sent), len(got.OwnerReferences))
			}
			if slices.Contains(ownerNames(ownedBy(test.has...)), "other") != slices.Contains(ownerNames(got), "other") {
				t.Errorf("someone else's owner is gone: %q", ownerNames(got))
			}
			if !test.anchored {
				return
			}
			want := Owner{APIVersion: "v1", Kind: "ConfigMap", Name: AnchorName, UID: "uid-of-anchor"}.reference()
			if last := got.OwnerReferences[len(got.OwnerReferences)-1]; !cmp.Equal(want, last) || len(got.OwnerReferences) > 2 {
				t.Errorf("owners %+v", got.OwnerReferences)
			}
			writes := len(*sent)
			if added, err := store.Attach(t.Context(), got, owners); added != 0 || err != nil || len(*sent) != writes {
				t.Errorf("an anchored revision got owners: %d, %v", added, err)
			}
		})
	}
}

// Rule 12: whatever pins a revision makes sure first that it is not deleted with its other users. Where it has no owners, it may get some at any moment:
// those for which it was made, which may be gone soon after.
func TestAWorkloadOwnsWhatItIsAboutToPin(t *testing.T) {
	_, full := replicaSets(MaxOwners)
	first := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "first", UID: "1"}
	second := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "second", UID: "2"}
	holder := Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "3"}
	other := Owner{APIVersion: "v1", Kind: "Other", Name: "other", UID: "9"}
	anchor := Owner{APIVersion: "v1", Kind: "ConfigMap", Name: AnchorName, UID: "uid-of-anchor"}
	created := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "second"}
	tests := map[string]struct {
		has   []Owner
		joins Owner
		want  []string
		taken bool // Something else has the anchor's name.
	}{
		"next to another workload":                {[]Owner{first}, second, []string{"first", "second"}, false},
		"next to a holder":                        {[]Owner{holder}, second, []string{"web-1", "second"}, false},
		"no owner yet":                            {nil, second, []string{AnchorName}, false},
		"no owner yet, and the name is taken":     {nil, second, nil, true},
		"it is one":                               {[]Owner{first, second}, second, []string{"first", "second"}, false},
		"next to the anchor":                      {[]Owner{first, anchor}, second, []string{"first", AnchorName}, false},
		"being created, next to another workload": {[]Owner{first}, created, []string{"first", AnchorName}, false},
		"being created, and no owner yet":         {nil, created, []string{AnchorName}, false},
		"being created, next to the anchor":       {[]Owner{first, anchor}, created, []string{"first", AnchorName}, false},
		"being created, and there is no anchor":   {[]Owner{first}, created, []string{"first"}, true},
		"next to as many as there may be":         {append([]Owner{other}, full[1:]...), second, []string{"other", AnchorName}, false},
		"next to as many as there may be, and the anchor's name is taken": {full, second, namesOf(full), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			source, mark := gen.ConfigMap("app", map[string]string{"k": "v"}), ours
			if test.taken {
				mark = nil
			}
			store, c, _ := storeOf(t, source, ownedBy(test.has...), anchorObject(mark))
			seen := observed(t, c)
			if _, created, err := store.Ensure(t.Context(), Ref{pin.ConfigMap, gen.Namespace, "app"}, seen, 1, test.joins); err != nil || created {
				t.Fatal(created, err)
			}
			if diff := cmp.Diff(test.want, ownerNames(metadataOf(t, c))); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
		})
	}
}

// newSource returns source app, and what there is to know of it, as long as it has no revision.
func newSource() (*corev1.ConfigMap, Observation) {
	source := gen.ConfigMap("app", map[string]string{"k": "v"})
	source.UID, source.ResourceVersion = "uid", "1"
	seen := Observation{Snapshot: snapshotOf(source), Object: Metadata(Ref{pin.ConfigMap, gen.Namespace, "app"})}
	seen.Name, seen.Hash, seen.Digests = appX, seen.Snapshot.Hash, seen.Snapshot.Digests
	return source, seen
}

// Rule 12: a revision is created with the owners that pin it. If some do not exist yet, or if they are too many, the anchor takes the place of all. The
// revision of a single one that does not exist yet has no owner.
func TestOwnersOfANewRevision(t *testing.T) {
	web := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "1"}
	api := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "api", UID: "2"}
	created, also := web, api
	created.UID, also.UID = "", ""
	_, many := replicaSets(MaxOwners + 1)
	tests := map[string]struct {
		owners []Owner
		want   []string
		taken  bool // Something else has the anchor's name.
	}{
		"one workload":                         {[]Owner{web}, []string{"web"}, false},
		"two workloads":                        {[]Owner{web, api}, []string{"web", "api"}, false},
		"one that is about to be created":      {[]Owner{created}, nil, false},
		"one of them is about to be created":   {[]Owner{created, api}, []string{AnchorName}, false},
		"two that are about to be created":     {[]Owner{created, also}, []string{AnchorName}, false},
		"as many as there may be":              {many[1:], namesOf(many[1:]), false},
		"more than a revision may list":        {many, []string{AnchorName}, false},
		"more, and the anchor's name is taken": {many, nil, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			mark := ours
			if test.taken {
				mark = nil
			}
			source, seen := newSource()
			store, c, _ := storeOf(t, source, anchorObject(mark))
			made, err := store.ensure(t.Context(), Ref{pin.ConfigMap, gen.Namespace, "app"}, seen, 1, test.owners)
			if err != nil {
				t.Fatal(err)
			}
			meta := Metadata(Ref{pin.ConfigMap, gen.Namespace, made.pin.Revision})
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(meta), meta); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, ownerNames(meta)); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
		})
	}
}

// Rule 12: the API server may ask several times about a workload that is being created, which does not need the anchor for that. Another one does.
func TestARevisionWithoutOwnersIsAskedForAgain(t *testing.T) {
	web := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	exists := web
	exists.UID = "1"
	for name, test := range map[string]struct {
		then Owner
		want []string
	}{
		"for the same":                      {web, nil},
		"for the same, which exists by now": {exists, []string{AnchorName}},
		"for another one":                   {Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "api"}, []string{AnchorName}},
		"for another one of that name":      {Owner{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web"}, []string{AnchorName}},
	} {
		t.Run(name, func(t *testing.T) {
			source, seen := newSource()
			store, c, _ := storeOf(t, source, anchorObject(ours))
			for _, owner := range []Owner{web, test.then} {
				made, err := store.ensure(t.Context(), Ref{pin.ConfigMap, gen.Namespace, "app"}, seen, 1, []Owner{owner})
				if err != nil {
					t.Fatal(err)
				}
				seen.Name = made.pin.Revision
			}
			meta := Metadata(Ref{pin.ConfigMap, gen.Namespace, seen.Name})
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(meta), meta); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, ownerNames(meta)); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
		})
	}
}

func namesOf(owners []Owner) (names []string) {
	for _, o := range owners {
		names = append(names, o.Name)
	}
	return names
}

// observed returns what there is to know of source app, which has a revision.
func observed(t *testing.T, c client.Client) Observation {
	t.Helper()
	meta := Metadata(Ref{pin.ConfigMap, gen.Namespace, "app"})
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(meta), meta); err != nil {
		t.Fatal(err)
	}
	source := gen.ConfigMap("app", map[string]string{"k": "v"})
	source.UID, source.ResourceVersion = meta.UID, meta.ResourceVersion
	seen := Observation{Snapshot: snapshotOf(source), noted: map[string]string{appX: ""}}
	seen.Name, seen.Hash, seen.Digests = appX, seen.Snapshot.Hash, seen.Snapshot.Digests
	return seen
}

// Rule 12: workloads that are deployed at the same time, through two replicas, all become owners. Their writes fail each other's
// conditions.
func TestManyJoinAtTheSameTime(t *testing.T) {
	first := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "first", UID: "1"}
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(gen.ConfigMap("app", map[string]string{"k": "v"}), ownedBy(first)).Build()
	stores := []*Store{NewStore(c, c, c, time.Now, appsKinds{}, 10), NewStore(c, c, c, time.Now, appsKinds{}, 10)}
	seen := observed(t, c)
	var all sync.WaitGroup
	const workloads = 40
	var failed atomic.Int64
	for i := range workloads {
		all.Go(func() {
			owner := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: fmt.Sprint("web-", i), UID: types.UID(fmt.Sprint("uid-", i))}
			for range 3 { // as the webhook does
				_, _, err := stores[i%2].Ensure(t.Context(), Ref{pin.ConfigMap, gen.Namespace, "app"}, seen, 1, owner)
				if err == nil {
					return
				}
				if !IsChanged(err) {
					t.Error(err)
				}
			}
			failed.Add(1)
		})
	}
	all.Wait()
	now := metadataOf(t, c)
	if got := len(now.OwnerReferences); !stores[0].Anchored(now) && got != workloads+1 || failed.Load() > 0 {
		t.Errorf("%d owners, %d failed", got, failed.Load())
	}
}

// Rule 12: workloads that one process is about to pin at the same time become owners in a few writes, and each is one before it pins.
func TestOwnersThatJoinTogetherShareAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "first", UID: "1"}
		var writes atomic.Int64
		c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(gen.ConfigMap("app", map[string]string{"k": "v"}), ownedBy(first)).
			WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
					writes.Add(1)
					time.Sleep(time.Second)
					return c.Patch(ctx, obj, patch, opts...)
				},
			}).Build()
		store := NewStore(c, c, c, time.Now, appsKinds{}, 10)
		seen := observed(t, c)
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				owner := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: fmt.Sprint("web-", i), UID: types.UID(fmt.Sprint("uid-", i))}
				if _, _, err := store.Ensure(t.Context(), Ref{pin.ConfigMap, gen.Namespace, "app"}, seen, 1, owner); err != nil {
					t.Error(err)
				}
				if now := metadataOf(t, c); !store.Anchored(now) && !slices.Contains(ownerNames(now), owner.Name) {
					t.Errorf("%s may pin the revision, and does not own it", owner.Name)
				}
			})
		}
		all.Wait()
		if got := writes.Load(); got > 3 {
			t.Errorf("%d writes", got)
		}
	})
}

// Rule 14: the anchor goes once all users are known, and few.
func TestTheUsersTakeTheAnchorsPlace(t *testing.T) {
	objects, owners := replicaSets(MaxOwners)
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: gen.Namespace, Name: "web", UID: "8"}}
	deployment := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "8"}
	gone := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "gone", UID: "7"}
	other := Owner{APIVersion: "v1", Kind: "Other", Name: "other", UID: "9"}
	anchor := Owner{APIVersion: "v1", Kind: "ConfigMap", Name: AnchorName, UID: "uid-of-anchor"}
	tests := map[string]struct {
		users    []Owner
		age      time.Duration
		others   bool // The API server has users that the cache does not show.
		want     []string
		waits    time.Duration
		complete bool // It was asked.
	}{
		"all known":                      {[]Owner{deployment, owners[0]}, 2 * PinWindow, false, []string{"other", "web", "web-000"}, 0, true},
		"one of them is gone":            {[]Owner{deployment, gone}, 2 * PinWindow, false, []string{"other", "web"}, 0, true},
		"all workloads are gone":         {[]Owner{gone, owners[0]}, 2 * PinWindow, false, nil, 0, true},
		"others use it too":              {[]Owner{deployment}, 2 * PinWindow, true, nil, 0, true},
		"it was just about to be pinned": {[]Owner{deployment}, time.Second, false, nil, PinWindow - time.Second, false},
		"there are many":                 {append([]Owner{deployment}, owners[:MaxOwners/2]...), 2 * PinWindow, false, nil, 0, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			begin := time.Unix(1_800_000_000, 0)
			made := ownedBy(other, gone, anchor)
			made.CreationTimestamp = metav1.NewTime(begin)
			store, c, _ := storeOf(t, append(slices.Clone(objects), web, made)...)
			store.now = func() time.Time { return begin }
			store.Sight(made)
			store.now = func() time.Time { return begin.Add(test.age) }
			asked := false
			done, wait, err := store.Unanchor(t.Context(), metadataOf(t, c), test.users, func(context.Context) (bool, error) {
				asked = true
				return !test.others, nil
			})
			if err != nil || done != (test.want != nil) || wait != test.waits || asked != test.complete {
				t.Errorf("done: %t, wait %s, asked: %t, %v", done, wait, asked, err)
			}
			want := test.want
			if want == nil {
				want = []string{"other", "gone", AnchorName}
			}
			if diff := cmp.Diff(want, ownerNames(metadataOf(t, c))); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
		})
	}
}

// Rule 12: an owner that cannot be read keeps no other one from becoming an owner, and is tried again.
func TestAttachAddsTheOwnersThatCouldBeRead(t *testing.T) {
	objects, owners := replicaSets(3)
	store, c, sent := storeOf(t, append(objects, ownedBy())...)
	store.live = interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
			if key.Name == "web-001" {
				return apierrors.NewInternalError(errors.New("no"))
			}
			return c.Get(ctx, key, obj, options...)
		},
	})
	added, err := store.Attach(t.Context(), metadataOf(t, c), owners)
	if added != 2 || err == nil || !strings.Contains(err.Error(), "web-001") || len(*sent) != 1 {
		t.Errorf("added %d in %d writes: %v", added, len(*sent), err)
	}
	if diff := cmp.Diff([]string{"web-000", "web-002"}, ownerNames(metadataOf(t, c))); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
}

func TestAnchorIsCreatedOnce(t *testing.T) {
	_, owners := replicaSets(MaxOwners + 1)
	t.Run("made", func(t *testing.T) {
		store, c, _ := storeOf(t, ownedBy())
		if _, err := store.Attach(t.Context(), metadataOf(t, c), owners); err != nil {
			t.Fatal(err)
		}
		anchor := &corev1.ConfigMap{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: gen.Namespace, Name: AnchorName}, anchor); err != nil {
			t.Fatal(err)
		}
		if !cmp.Equal(ours, anchor.Annotations) || len(anchor.Labels)+len(anchor.Data)+len(anchor.OwnerReferences)+len(anchor.Finalizers) > 0 {
			t.Errorf("the anchor is %+v", anchor)
		}
		if IsRevision(anchor) {
			t.Error("the anchor is taken for a revision")
		}
	})
	for name, test := range notOurs() {
		t.Run(name, func(t *testing.T) {
			store, c, sent := storeOf(t, ownedBy(owners[0]), test.anchor)
			added, err := store.Attach(t.Context(), metadataOf(t, c), owners)
			if added != 0 {
				t.Errorf("%d owners count as added", added)
			}
			if err == nil || IsChanged(err) != (test.says == "") || !strings.Contains(err.Error(), AnchorName) || !strings.Contains(err.Error(), test.says) || len(*sent) > 0 {
				t.Errorf("%v, %d writes", err, len(*sent))
			}
		})
	}
}

type foreignAnchor struct {
	anchor *corev1.ConfigMap
	// says is what the error has; "" if the object goes by itself, so that confrev looks again.
	says string
}

// notOurs returns objects that have the anchor's name and must own no revision: garbage collection would delete the revision with them, or they
// never go.
func notOurs() map[string]foreignAnchor {
	const deleteIt, removeThose = "delete or rename it", "remove those"
	marked := func(change func(*corev1.ConfigMap)) *corev1.ConfigMap {
		anchor := anchorObject(ours)
		change(anchor)
		return anchor
	}
	going := func(ago time.Duration, finalizer string) *corev1.ConfigMap {
		at := metav1.NewTime(time.Now().Add(-ago))
		return marked(func(a *corev1.ConfigMap) { a.DeletionTimestamp, a.Finalizers = &at, []string{finalizer} })
	}
	return map[string]foreignAnchor{
		"without the annotation": {anchorObject(nil), deleteIt},
		"with an owner": {marked(func(a *corev1.ConfigMap) {
			a.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "bait", UID: "1"}}
		}), removeThose},
		"with a finalizer":       {marked(func(a *corev1.ConfigMap) { a.Finalizers = []string{"example.com/keep"} }), removeThose},
		"with data":              {marked(func(a *corev1.ConfigMap) { a.Data = map[string]string{"k": "v"} }), removeThose},
		"with binary data":       {marked(func(a *corev1.ConfigMap) { a.BinaryData = map[string][]byte{"k": nil} }), removeThose},
		"one that never goes":    {going(0, "example.com/keep"), removeThose},
		"one that is going":      {going(0, metav1.FinalizerDeleteDependents), ""},
		"one that does not go":   {going(2*time.Minute, metav1.FinalizerDeleteDependents), removeThose},
		"one that leaves others": {going(0, metav1.FinalizerOrphanDependents), ""},
	}
}

// Rules 12 and 14: what confrev did not create as the anchor does not own a revision, which is pinned anyway.
func TestAForeignAnchorOwnsNothing(t *testing.T) {
	first := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "first", UID: "1"}
	created := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "second"}
	for name, test := range notOurs() {
		t.Run(name, func(t *testing.T) {
			store, c, _ := storeOf(t, gen.ConfigMap("app", map[string]string{"k": "v"}), ownedBy(first), test.anchor)
			_, _, err := store.Ensure(t.Context(), Ref{pin.ConfigMap, gen.Namespace, "app"}, observed(t, c), 1, created)
			if IsChanged(err) != (test.says == "") || err != nil && !IsChanged(err) {
				t.Error(err)
			}
			if diff := cmp.Diff([]string{"first"}, ownerNames(metadataOf(t, c))); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnchored(t *testing.T) {
	store := &Store{kinds: appsKinds{}}
	tests := map[string]struct {
		owner metav1.OwnerReference
		want  bool
	}{
		"the anchor":                  {metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: AnchorName}, true},
		"another ConfigMap":           {metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "app"}, false},
		"a Secret of that name":       {metav1.OwnerReference{APIVersion: "v1", Kind: "Secret", Name: AnchorName}, false},
		"something else of that name": {metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "ConfigMap", Name: AnchorName}, false},
	}
	for name, test := range tests {
		revision := ownedBy()
		revision.OwnerReferences = []metav1.OwnerReference{{Kind: "Other"}, test.owner}
		if got := store.Anchored(revision); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if store.Anchored(ownedBy()) {
		t.Error("a revision without owners is anchored")
	}
}

func TestSetFinalizersLocksOptimistically(t *testing.T) {
	store, c, sent := storeOf(t, ownedBy())
	seen := metadataOf(t, c)
	if err := store.SetFinalizers(t.Context(), seen, []string{keys.ProtectFinalizer}); err != nil {
		t.Fatal(err)
	}
	got := metadataOf(t, c)
	if !cmp.Equal(got.Finalizers, []string{keys.ProtectFinalizer}) || len(*sent) != 1 {
		t.Errorf("finalizers %q in %d writes", got.Finalizers, len(*sent))
	}
	if err := store.SetFinalizers(t.Context(), seen, nil); !IsChanged(err) {
		t.Errorf("one that changed meanwhile: %v", err)
	}
	if err := store.SetFinalizers(t.Context(), got, []string{}); err != nil || len(metadataOf(t, c).Finalizers) > 0 {
		t.Errorf("none: %v, %q", err, metadataOf(t, c).Finalizers)
	}
	gone := Metadata(Ref{pin.ConfigMap, gen.Namespace, "gone"})
	if err := store.SetFinalizers(t.Context(), gone, nil); !IsChanged(err) || apierrors.IsNotFound(err) {
		t.Errorf("one that is gone: %v", err)
	}
}

// Rule 37: what follows from a note follows only if it was written.
func TestARevisionThatIsGoneGetsNoNote(t *testing.T) {
	store, c, sent := storeOf(t, ownedBy())
	if err := store.SetPropagation(t.Context(), Ref{pin.ConfigMap, gen.Namespace, appX}, spread.Record{Revision: "x", Number: 9}, false); err != nil {
		t.Fatal(err)
	}
	if got := metadataOf(t, c).Annotations[keys.Propagation]; got != `{"revision":"x","number":9,"wave":0}` || len(*sent) != 1 {
		t.Errorf("noted %q in %d writes", got, len(*sent))
	}
	if err := store.SetPropagation(t.Context(), Ref{pin.ConfigMap, gen.Namespace, "gone"}, spread.Record{}, false); !IsChanged(err) || apierrors.IsNotFound(err) {
		t.Errorf("one that is gone: %v", err)
	}
}

// Rule 13: only what confrev itself let go of, or no one ever owned, is swept.
func TestSweep(t *testing.T) {
	replicaSet := Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "1"}
	deployment := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "2"}
	anchor := Owner{APIVersion: "v1", Kind: "ConfigMap", Name: AnchorName, UID: "3"}
	const grace = time.Hour
	tests := map[string]struct {
		owners  []Owner
		age     time.Duration
		used    bool
		deleted bool
		waits   time.Duration
		spares  time.Duration
	}{
		"it is to be spared for less":         {owners: []Owner{deployment}, age: 2 * time.Second, spares: time.Second, deleted: true},
		"it is to be spared for too long":     {owners: []Owner{deployment}, age: 2 * PinWindow, spares: time.Hour, deleted: true},
		"no one ever owned it, for long":      {age: 2 * grace, deleted: true},
		"no one ever owned it, but it is new": {age: grace - time.Minute, waits: time.Minute},
		"someone uses it":                     {age: 2 * grace, used: true, waits: grace},
		"its workload owns it":                {owners: []Owner{deployment}, age: 2 * PinWindow, deleted: true},
		"its workload just pins it":           {owners: []Owner{deployment}, age: time.Second, waits: PinWindow - time.Second},
		"the anchor owns it":                  {owners: []Owner{anchor}, age: 2 * PinWindow, deleted: true},
		"the anchor owns it, and it is used":  {owners: []Owner{anchor}, age: 2 * PinWindow, used: true, waits: PinWindow},
		"a holder owns it":                    {owners: []Owner{deployment, replicaSet}, age: 2 * grace},
		"a holder and the anchor own it":      {owners: []Owner{anchor, replicaSet}, age: 2 * grace},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			begin := time.Unix(1_800_000_000, 0)
			made := ownedBy(test.owners...)
			made.CreationTimestamp = metav1.NewTime(begin)
			store, c, _ := storeOf(t, made)
			if test.spares > 0 {
				store.Sparing(test.spares)
			}
			store.now = func() time.Time { return begin }
			store.Sight(made)
			store.now = func() time.Time { return begin.Add(test.age) }
			deleted, wait, err := store.Sweep(t.Context(), metadataOf(t, c), grace, func(context.Context) (bool, error) { return test.used, nil })
			if err != nil || deleted != test.deleted || wait != test.waits {
				t.Errorf("deleted: %v, wait %s, %v; want %v, %s", deleted, wait, err, test.deleted, test.waits)
			}
			err = c.Get(t.Context(), client.ObjectKeyFromObject(made), &corev1.ConfigMap{})
			if apierrors.IsNotFound(err) != test.deleted {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// Rule 12: a few that are about to pin a revision are listed; where there are many at once, the anchor owns it for all that follow.
func TestTheAnchorOwnsWhatACrowdIsAboutToPin(t *testing.T) {
	for n, anchored := range map[int]bool{1: false, crowd - 1: false, crowd: true, 2 * crowd: true} {
		first := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "first", UID: "1"}
		store, c, _ := storeOf(t, ownedBy(first), anchorObject(ours))
		_, owners := replicaSets(n)
		metadata := map[string]any{}
		if err := store.ownForPinning(t.Context(), metadataOf(t, c), owners, metadata); err != nil {
			t.Fatal(err)
		}
		references := metadata["ownerReferences"].([]metav1.OwnerReference)
		if got := slices.ContainsFunc(references, isAnchor); got != anchored || !anchored && len(references) != n+1 {
			t.Errorf("%d at once: anchored %t, owners %d", n, got, len(references))
		}
	}
}

// Rules 9 and 12: what was looked at a moment ago counts for further workloads if the anchor owns the revision, and for no longer than that.
func TestAPreparationCountsForFurtherWorkloads(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	for name, test := range map[string]struct {
		owner   string
		later   time.Duration
		version string
		want    bool
	}{
		"at once":                                {AnchorName, 0, "", true},
		"within the time":                        {AnchorName, fresh - time.Millisecond, "", true},
		"later":                                  {AnchorName, fresh, "", false},
		"the clock was set back":                 {AnchorName, -time.Hour, "", false},
		"another version of the source was seen": {AnchorName, 0, "uid/other", false},
		"listed owners":                          {"web-000", 0, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, owners := replicaSets(2)
			if test.owner == AnchorName {
				owners[0] = Owner{APIVersion: "v1", Kind: "ConfigMap", Name: AnchorName, UID: "uid-of-anchor"}
			}
			at, reads := &clock{start}, 0
			c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).
				WithObjects(gen.ConfigMap("app", map[string]string{"k": "v"}), ownedBy(owners[0]), anchorObject(ours)).
				WithIndex(&corev1.ConfigMap{}, BySource, IndexBySource(pin.ConfigMap)).Build()
			live := interceptor.NewClient(c, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					reads++
					return c.Get(ctx, key, obj, opts...)
				},
			})
			store := NewStore(c, live, c, at.now, appsKinds{}, 10)
			seen := observe(t, store, c, appX)
			ref := Ref{pin.ConfigMap, gen.Namespace, "app"}
			first, _, err := store.Ensure(t.Context(), ref, seen, 1, owners[0])
			if err != nil {
				t.Fatal(err)
			}
			at.at = at.at.Add(test.later)
			if test.version != "" {
				seen.Snapshot.Version = test.version
			}
			reads = 0
			second, made, err := store.Ensure(t.Context(), ref, seen, 1, owners[1])
			if test.version == "" && (err != nil || second != first) || made {
				t.Fatalf("%s, then %s, created: %t, %v", first, second, made, err)
			}
			if got := reads == 0; got != test.want {
				t.Errorf("read %d times", reads)
			}
		})
	}
}

// Rule 12: two workloads that are created with generateName have no name yet when they pin a revision, and are not the same.
func TestWorkloadsWithoutANameAreNotTheSame(t *testing.T) {
	for name, anchored := range map[string]bool{"": true, "web": false} {
		store, c, _ := observing(t, gen.ConfigMap("app", map[string]string{"k": "v"}))
		created := Owner{APIVersion: "batch/v1", Kind: "Job", Name: name}
		ref := Ref{pin.ConfigMap, gen.Namespace, "app"}
		var made pin.Pin
		for range 2 {
			var err error
			if made, _, err = store.Ensure(t.Context(), ref, observe(t, store, c, ""), 1, created); err != nil {
				t.Fatal(err)
			}
		}
		meta := NewMetadata(pin.ConfigMap)
		if err := c.Get(t.Context(), Ref{pin.ConfigMap, gen.Namespace, made.Revision}.key(), meta); err != nil {
			t.Fatal(err)
		}
		if store.Anchored(meta) != anchored {
			t.Errorf("of the name %q: owned by %v", name, meta.OwnerReferences)
		}
	}
}
