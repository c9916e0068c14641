package revision

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/gen"
)

// Rules 13 and 14: how long a revision is spared does not depend on the clocks of the API server and of other replicas, which say when it was created and
// renewed.
func TestNoOtherClockMakesARevisionOld(t *testing.T) {
	deployment := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "2"}
	anchor := Owner{APIVersion: "v1", Kind: "ConfigMap", Name: AnchorName, UID: "3"}
	none := func(context.Context) (bool, error) { return false, nil }
	ends := map[string]struct {
		owner Owner
		do    func(ctx context.Context, s *Store, meta *metav1.PartialObjectMetadata) (bool, time.Duration, error)
	}{
		"the sweep": {deployment, func(ctx context.Context, s *Store, meta *metav1.PartialObjectMetadata) (bool, time.Duration, error) {
			return s.Sweep(ctx, meta, time.Hour, none)
		}},
		"the end of the anchor": {anchor, func(ctx context.Context, s *Store, meta *metav1.PartialObjectMetadata) (bool, time.Duration, error) {
			return s.Unanchor(ctx, meta, []Owner{deployment}, func(context.Context) (bool, error) { return true, nil })
		}},
	}
	for name, end := range ends {
		for _, ahead := range []time.Duration{-1000 * time.Hour, -time.Hour, -PinWindow, 0, PinWindow, 9 * time.Minute, 11 * time.Minute, 1000 * time.Hour} {
			t.Run(fmt.Sprint(name, ", other clocks are ahead by ", ahead), func(t *testing.T) {
				at := &clock{time.Unix(1_800_000_000, 0)}
				made := ownedBy(end.owner)
				made.CreationTimestamp = metav1.NewTime(at.at.Add(ahead))
				web := gen.Deployment("web")
				web.UID = deployment.UID
				store, c, _ := storeOf(t, made, web)
				store.now = at.now
				try := func(done bool, wait time.Duration) {
					t.Helper()
					if got, waits, err := end.do(t.Context(), store, metadataOf(t, c)); err != nil || got != done || waits != wait {
						t.Errorf("done: %t, wait %s, %v; want %t, %s", got, waits, err, done, wait)
					}
				}
				try(false, PinWindow)
				at.at = at.at.Add(PinWindow - time.Second)
				try(false, time.Second)
				renewed := at.at.Add(ahead).UTC().Format(time.RFC3339)
				if err := c.Patch(t.Context(), made.DeepCopy(), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, keys.Renewed, renewed))); err != nil {
					t.Fatal(err)
				}
				at.at = at.at.Add(time.Second)
				try(false, PinWindow)
				at.at = at.at.Add(PinWindow)
				try(true, 0)
			})
		}
	}
}

// What is used is seen too, and need not be spared again once it no longer is.
func TestARevisionIsSparedSinceItWasSeen(t *testing.T) {
	at := &clock{time.Unix(1_800_000_000, 0)}
	store, c, _ := storeOf(t, ownedBy(Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "2"}))
	store.now = at.now
	store.Sight(metadataOf(t, c))
	at.at = at.at.Add(PinWindow)
	if deleted, _, err := store.Sweep(t.Context(), metadataOf(t, c), time.Hour, func(context.Context) (bool, error) { return false, nil }); err != nil || !deleted {
		t.Errorf("deleted: %t, %v", deleted, err)
	}
}

// Rule 13: a time that another clock wrote is no reason not to renew.
func TestWhenARevisionIsRenewed(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, test := range map[string]struct {
		created, renewed time.Duration
		want             bool
	}{
		"it is new":                                                 {created: 0, want: false},
		"it is a second old":                                        {created: -renewInterval, want: true},
		"it was created by a clock ahead":                           {created: time.Minute, want: true},
		"it was just renewed":                                       {created: -time.Hour, renewed: -time.Millisecond, want: false},
		"it was renewed a second ago":                               {created: -time.Hour, renewed: -renewInterval, want: true},
		"it was renewed by a clock ahead":                           {created: -time.Hour, renewed: time.Minute, want: true},
		"it was renewed by a clock far ahead":                       {created: -time.Hour, renewed: 1000 * time.Hour, want: true},
		"a clock ahead created it, and it was renewed a moment ago": {created: time.Hour, renewed: -time.Millisecond, want: false},
	} {
		t.Run(name, func(t *testing.T) {
			owner := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "2"}
			made := ownedBy(owner)
			made.CreationTimestamp = metav1.NewTime(now.Add(test.created))
			if test.renewed != 0 {
				made.Annotations[keys.Renewed] = now.Add(test.renewed).UTC().Format(time.RFC3339Nano)
			}
			store, c, _ := storeOf(t, made)
			store.now = func() time.Time { return now }
			if _, err := store.refresh(t.Context(), metadataOf(t, c), 1, Observation{Snapshot: Snapshot{Version: made.Annotations[keys.SourceVersion]}}, []Owner{owner}); err != nil {
				t.Fatal(err)
			}
			got := &corev1.ConfigMap{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(made), got); err != nil || (got.Annotations[keys.Renewed] == store.stamp()) != test.want {
				t.Errorf("renewed %q, %v", got.Annotations[keys.Renewed], err)
			}
		})
	}
}
