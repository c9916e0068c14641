package reconcile

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/gen"
)

// Rule 12: a holder's workload comes before it, also when its template no longer pins the revision. Messages name the first owner, and people
// know workloads.
func TestAWorkloadIsListedBeforeItsHolders(t *testing.T) {
	r, _, _ := newRevisions(t)
	old := gen.Ran("web-1", 1, "web:1", "configmap/app=app-1@1")
	var names []string
	for _, o := range r.owners(users{holders: []user{{obj: old, kind: old.TypeMeta}}}) {
		names = append(names, o.Kind+"/"+o.Name)
	}
	if want := []string{"Deployment/web", "ReplicaSet/web-1"}; !slices.Equal(names, want) {
		t.Errorf("owners are %v, want %v", names, want)
	}
}

// Rule 12: a workload that is deleted while it is new (--cascade=orphan) may leave a holder that confrev has not seen. If the workload were the only
// owner of its revision, the revision would go with it.
func TestTheFirstOwnersComeWithAHolder(t *testing.T) {
	pins := gen.PinOfApp("v", "1")
	for name, test := range map[string]struct {
		holders []client.Object
		passed  time.Duration
		want    []string
		again   time.Duration
	}{
		"none yet":             {want: nil, again: 10 * time.Second},
		"none for a while":     {passed: 9 * time.Second, want: nil, again: time.Second},
		"none, as in CronJobs": {passed: 10 * time.Second, want: []string{"Deployment/web"}},
		"one":                  {holders: []client.Object{gen.Ran("web-1", 1, "web:1", pins)}, want: []string{"Deployment/web", "ReplicaSet/web-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, _, _ := newRevisions(t, append(test.holders, gen.App("v"), gen.RevisionOfApp("v", "1"), gen.Web("web:1", gen.Pinned(pins)))...)
			now := time.Now()
			r.Now = func() time.Time { return now }
			r.Store = revision.NewStore(r.Client, r.Live, r.Client, r.Now, r.Kinds, 100)
			ref := revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: gen.NameOfRevision("v")}
			r.Store.Sight(gen.RevisionOfApp("v", "1"))
			now = now.Add(test.passed)
			result, err := r.Reconcile(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			obj := &corev1.ConfigMap{}
			if err := r.Client.Get(t.Context(), client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, obj); err != nil {
				t.Fatal(err)
			}
			var owners []string
			for _, o := range obj.OwnerReferences {
				owners = append(owners, o.Kind+"/"+o.Name)
			}
			if !slices.Equal(owners, test.want) || result.RequeueAfter != test.again {
				t.Errorf("%v own it, next look after %s; want %v, %s", owners, result.RequeueAfter, test.want, test.again)
			}
		})
	}
}
