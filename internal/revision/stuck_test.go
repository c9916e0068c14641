package revision

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/gen"
)

// leaving makes a true revision of app that has been being deleted for some time, and that these finalizers keep.
func leaving(name, value string, since time.Duration, finalizers ...string) *corev1.ConfigMap {
	made := claiming(name, value, value)
	at := metav1.NewTime(time.Now().Add(-since))
	made.DeletionTimestamp, made.Finalizers = &at, finalizers
	return made
}

// Rule 8: a revision that is being deleted is waited for if it goes by itself. Otherwise its name is taken: anyone who may create ConfigMaps could
// otherwise keep a workload from some content.
func TestARevisionThatNeverGoesHasTakenItsName(t *testing.T) {
	tests := map[string]struct {
		since      time.Duration
		finalizers []string
		waits      bool
	}{
		"someone's finalizer":                          {0, []string{"example.com/keep"}, false},
		"confrev's own":                                {0, []string{"confrev.io/protect"}, false},
		"the garbage collector is at it":               {0, []string{metav1.FinalizerDeleteDependents}, true},
		"it leaves what it owns":                       {time.Second, []string{metav1.FinalizerOrphanDependents}, true},
		"the garbage collector and someone":            {0, []string{metav1.FinalizerDeleteDependents, "example.com/keep"}, false},
		"something keeps the garbage collector at bay": {2 * time.Minute, []string{metav1.FinalizerDeleteDependents}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			stuck := leaving(nameOfValue("a", 0), "a", test.since, test.finalizers...)
			// Seen in the cache before, or found when a revision is created.
			for _, known := range []bool{true, false} {
				store, c, _ := observing(t, gen.ConfigMap("app", map[string]string{"k": "a"}), stuck.DeepCopy())
				ref := Ref{pin.ConfigMap, gen.Namespace, "app"}
				if known {
					store.known.Add(Ref{pin.ConfigMap, gen.Namespace, stuck.Name}, stuck.UID)
				}
				seen := observe(t, store, c, "")
				p, created, err := store.Ensure(t.Context(), ref, seen, 1, Owner{})
				if test.waits {
					if !IsChanged(err) {
						t.Errorf("known: %t, pinned %s: %v", known, p, err)
					}
					continue
				}
				if err != nil || !created || p.Revision != nameOfValue("a", 1) {
					t.Fatalf("known: %t, pinned %s, created: %t, %v", known, p, created, err)
				}
				if again, _, err := store.Ensure(t.Context(), ref, observe(t, store, c, ""), 1, Owner{}); err != nil || again != p {
					t.Errorf("pinned %s, then %s: %v", p, again, err)
				}
			}
		})
	}
}

// Rule 8: all that is left is to tell someone.
func TestAllNamesAreTakenByRevisionsThatNeverGo(t *testing.T) {
	all := []client.Object{gen.ConfigMap("app", map[string]string{"k": "a"})}
	for name := range content.RevisionNames("app", hashOfValue("a")) {
		all = append(all, leaving(name, "a", 0, "example.com/keep"))
	}
	store, c, _ := observing(t, all...)
	_, _, err := store.Ensure(t.Context(), Ref{pin.ConfigMap, gen.Namespace, "app"}, observe(t, store, c, ""), 1, Owner{})
	if err == nil || IsChanged(err) {
		t.Error(err)
	}
}

// Rules 8 and 9: a workload that pins a revision which never goes reads what it should, so it stays there. For others, it is as good as gone.
func TestAPinnedRevisionThatNeverGoesCounts(t *testing.T) {
	stuck := leaving(nameOfValue("a", 0), "a", 0, "example.com/keep")
	for name, test := range map[string]struct {
		others []client.Object
		pinned string
		want   string
		exists bool
	}{
		"the workload pins it":                     {nil, stuck.Name, stuck.Name, true},
		"the workload pins it, others another one": {[]client.Object{claiming(nameOfValue("a", 1), "a", "a")}, stuck.Name, stuck.Name, true},
		"another workload":                         {nil, "", stuck.Name, false},
		"another workload, and there is one":       {[]client.Object{claiming(nameOfValue("a", 1), "a", "a")}, "", nameOfValue("a", 1), true},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append([]client.Object{gen.ConfigMap("app", map[string]string{"k": "a"}), stuck.DeepCopy()}, test.others...)
			store, c, _ := observing(t, objects...)
			seen := observe(t, store, c, test.pinned)
			if seen.Name != test.want || seen.Exists(seen.Name) != test.exists {
				t.Errorf("the revision is %s, exists: %t", seen.Name, seen.Exists(seen.Name))
			}
		})
	}
}
