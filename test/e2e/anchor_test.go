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

// Rules 12 and 14: an anchor that is deleted with something else, or that never goes, owns no revision: a workload that is created next to another one
// is pinned, and keeps the revision when the other one goes.
func TestAForeignAnchorOwnsNoRevision(t *testing.T) {
	t.Parallel()
	patch := func(w *world, text string, args ...any) {
		w.unguarded("patch", "configmap", revision.AnchorName, "--type=merge", "-p", fmt.Sprintf(text, args...))
	}
	for name, spoil := range map[string]func(w *world, bait *corev1.ConfigMap){
		"it has an owner": func(w *world, bait *corev1.ConfigMap) {
			patch(w, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"bait","uid":%q}]}}`, bait.UID)
		},
		"it is being deleted and never goes": func(w *world, _ *corev1.ConfigMap) {
			patch(w, `{"metadata":{"finalizers":["example.com/keep"]}}`)
			w.unguarded("delete", "configmap", revision.AnchorName, "--wait=false")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			bait, anchor := configMap("bait"), configMap(revision.AnchorName)
			anchor.Annotations = map[string]string{keys.Anchor: "true"}
			w.Create(bait, anchor, configMap("shared", "k", "A"))
			spoil(w, bait)
			w.Create(deployment("first", envFrom("shared")))
			pinned := w.WaitPinned("first", "shared", "k", "A")
			w.WaitOwned(pinned.Revision, "first")
			made := &corev1.ConfigMap{}
			w.Must(w.Get(pinned.Revision, made))

			w.Create(deployment("second", envFrom("shared")))
			if p := w.PinOf("second", "shared"); p != pinned {
				t.Errorf("the webhook pinned it to %s, want %s", p, pinned)
			}
			w.Must(w.Get(pinned.Revision, made))
			for _, owner := range made.OwnerReferences {
				if owner.Name == revision.AnchorName {
					t.Errorf("the anchor owns %s", pinned.Revision)
				}
			}
			w.WaitOwned(pinned.Revision, "first", "second")
			w.Kubectl("delete", "configmap", "bait")
			w.Kubectl("delete", "deployment", "first", "--cascade=foreground")
			w.WaitOwned(pinned.Revision, "second")
			w.Barrier()
			now := &corev1.ConfigMap{}
			w.Must(w.Get(pinned.Revision, now))
			if now.UID != made.UID {
				t.Errorf("%s was deleted, and created again", pinned.Revision)
			}
			if w.Get(revision.AnchorName, anchor) == nil && len(anchor.Finalizers) > 0 {
				// Anyone may, as the log says.
				w.Kubectl("patch", "configmap", revision.AnchorName, "--type=merge", "-p", noFinalizer)
			}
		})
	}
}
