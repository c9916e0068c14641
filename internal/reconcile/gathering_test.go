package reconcile

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/gen"
)

// Rule 12: the first owner of a revision is written at once. The more there are, the longer further ones are gathered; longest, if the anchor
// owns the revision in their place.
func TestOwnersAreGathered(t *testing.T) {
	workloads := func(n int) (owners []metav1.OwnerReference) {
		for i := range n {
			owners = append(owners, metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: fmt.Sprint("web-", i), UID: types.UID(fmt.Sprint(i))})
		}
		return owners
	}
	anchor := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: revision.AnchorName, UID: "anchor"}}
	for name, test := range map[string]struct {
		owners []metav1.OwnerReference
		want   time.Duration
	}{
		"none":       {nil, 0},
		"one":        {workloads(1), gatherPerOwner},
		"many":       {workloads(90), gatherMost},
		"the anchor": {anchor, gatherMost},
	} {
		t.Run(name, func(t *testing.T) {
			r, _, _ := newRevisions(t)
			rev := gen.RevisionOfApp("A", "1")
			rev.OwnerReferences = test.owners
			if got := r.gathers(rev); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
