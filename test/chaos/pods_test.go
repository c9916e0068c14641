//go:build chaos

package chaos

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"confrev.io/confrev/internal/keys"
)

// checkPods complains of each pod that was created with other references than those that its holder was rolled out with (invariant 1).
func checkPods(entries []entry) (wrong []string, pods int) {
	for _, e := range entries {
		if e.ref.kind() != "pod" || e.event != watch.Added {
			continue
		}
		pods++
		holder := holderOf(e.obj, entries)
		if holder == nil {
			wrong = append(wrong, fmt.Sprintf("%s has no holder", e.ref))
			continue
		}
		template := templateOf(holder)
		want, ok := readBy(template)
		if got := references(e.obj.Object["spec"]); !slices.Equal(got, want) {
			wrong = append(wrong, fmt.Sprintf("%s was created at %d with %v, but %s has %v (pins %q)", e.ref, e.version, got, refOf(holder), want, pinsText(template)))
		}
		if !ok || pinsText(template) != e.obj.GetAnnotations()[keys.Pins] {
			wrong = append(wrong, fmt.Sprintf("%s was created at %d with the pins %q, and %s has %q", e.ref, e.version, e.obj.GetAnnotations()[keys.Pins], refOf(holder), pinsText(template)))
		}
	}
	return wrong, pods
}

// holderOf returns what keeps the template that a pod was made from. Templates of holders never change.
func holderOf(pod *unstructured.Unstructured, entries []entry) *unstructured.Unstructured {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return nil
	}
	hash := pod.GetLabels()["controller-revision-hash"]
	i := slices.IndexFunc(entries, func(e entry) bool {
		if e.ref.kind() != "controllerrevision" {
			return e.uid == owner.UID && slices.Contains(holderKinds, e.ref.kind())
		}
		controller := metav1.GetControllerOf(e.obj)
		return controller != nil && controller.UID == owner.UID && hash != "" && (e.ref.name() == hash || strings.HasSuffix(e.ref.name(), "-"+hash))
	})
	if i < 0 {
		return nil
	}
	return entries[i].obj
}
