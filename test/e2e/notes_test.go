//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/keys"
)

// A note on a workload that kubectl applied leaves kubectl's own annotation, from which a later apply learns what to prune. A
// StatefulSet that its namespace opts in has no other annotation.
func TestANoteKeepsTheLastAppliedAnnotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Kubectl("label", "namespace", w.NS, keys.Track+"=all")
	manifest := func(more string) string {
		return fmt.Sprintf(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  serviceName: web
  selector: {matchLabels: {app: web}}
%s
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: app, image: "app:1", envFrom: [{configMapRef: {name: web}}]}]
`, more)
	}
	set := &appsv1.StatefulSet{}
	pinnedTo := func(number string) {
		w.Eventually("web is pinned to revision "+number, func() string {
			w.Must(w.Get("web", set))
			if pins := set.Spec.Template.Annotations[keys.Pins]; !strings.HasSuffix(pins, "@"+number) ||
				set.Status.ObservedGeneration < set.Generation || set.Status.UpdatedReplicas != 1 {
				return fmt.Sprintf("pins %q, status %+v", pins, set.Status)
			}
			return ""
		})
	}
	w.Create(configMap("web", "color", "A"))
	w.KubectlIn(manifest("  minReadySeconds: 1"), "apply", "-f", "-")
	pinnedTo("1")
	w.Edit("web", "color", "B")
	pinnedTo("2")
	// Without the source, the webhook cannot know that the undo is a hold. So it is the controller that notes it later.
	w.Kubectl("delete", "configmap", "web")
	w.Kubectl("rollout", "undo", "statefulset/web")
	w.Create(configMap("web", "color", "B"))
	w.Eventually("web is held", func() string {
		w.Must(w.Get("web", set))
		if set.Annotations[keys.Held] == "" {
			return fmt.Sprintf("annotations %q", set.Annotations)
		}
		return ""
	})
	if set.Annotations[corev1.LastAppliedConfigAnnotation] == "" {
		t.Error("the note took the manifest that was applied away")
	}
	w.KubectlIn(manifest(""), "apply", "-f", "-")
	w.Must(w.Get("web", set))
	if set.Spec.MinReadySeconds != 0 {
		t.Error("a field that was taken out of the manifest stays")
	}
}
