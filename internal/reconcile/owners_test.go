package reconcile

import (
	"slices"
	"testing"

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
