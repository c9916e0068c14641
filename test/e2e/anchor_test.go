//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "k8s.io/api/apps/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/gen"
)

// Rule 14: past about a hundred owners, the namespace's anchor owns a revision; confrev lets go of it when no one uses it.
func TestAnchorOwnsRevisionOfManyUsers(t *testing.T) {
	t.Parallel()
	const workloads = revision.MaxOwners
	w := newWorld(t)
	w.Create(configMap("shared", "k", "A"))
	for i := range workloads {
		d := deployment(fmt.Sprintf("web-%d", i), envFrom("shared"), gen.Replicas(0), gen.HistoryLimit(0))
		d.Labels = map[string]string{"many": "true"}
		w.Create(d)
	}
	w.Eventually("the anchor owns the revision", func() string {
		revisions := w.Revisions("shared")
		if len(revisions) != 1 {
			return fmt.Sprint(len(revisions), " revisions")
		}
		// The webhook adds the anchor to the owners that there are, the controller puts it in their place.
		owners := revisions[0].OwnerReferences
		if len(owners) == 0 || len(owners) > revision.MaxOwners || owners[len(owners)-1].Name != revision.AnchorName {
			return fmt.Sprint(len(owners), " owners")
		}
		return ""
	})
	w.WaitPinned(fmt.Sprintf("web-%d", workloads-1), "shared", "k", "A")
	first := w.Revisions("shared")[0].Name
	anchor := &corev1.ConfigMap{}
	w.Must(w.Get(revision.AnchorName, anchor))
	if anchor.Annotations[keys.Anchor] != "true" || len(anchor.Data) > 0 {
		t.Errorf("the anchor is %+v", anchor)
	}
	w.Edit("shared", "k", "B")
	w.waitGone(first)
	second := w.Revisions("shared")[0].Name
	w.WaitPinned("web-0", "shared", "k", "B")
	if err := cluster.Client.DeleteAllOf(w.Ctx, &appsv1.Deployment{}, client.InNamespace(w.NS),
		client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(labels.Set{"many": "true"})},
		client.PropagationPolicy("Background")); err != nil {
		t.Fatal(err)
	}
	w.waitGone(second)
	if w.Gone("shared") {
		t.Error("the source went")
	}
}
