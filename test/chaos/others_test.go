//go:build chaos

package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"confrev.io/confrev/internal/keys"
)

// checkOthers complains of changes to users' objects that are not confrev's to make, and of such objects that went (invariant 6).
func (p *play) checkOthers(entries []entry) (wrong []string) {
	before := map[types.UID]*unstructured.Unstructured{}
	for _, e := range entries {
		if !isSource(e.ref) && !isWorkload(e.ref) && !isBystander(e.ref) && !p.exists[e.ref] {
			continue
		}
		last := before[e.uid]
		before[e.uid] = e.obj
		if e.event == watch.Deleted {
			if !p.deleted[e.uid] {
				wrong = append(wrong, fmt.Sprintf("%s was deleted at %d, by no user", e.ref, e.version))
			}
			continue
		}
		_, byUser := p.byUser(e.version)
		// Kubernetes writes how it is to be deleted.
		if last == nil || byUser || e.obj.GetDeletionTimestamp() != nil {
			continue
		}
		if diff := cmp.Diff(usersPart(last), usersPart(e.obj)); diff != "" {
			wrong = append(wrong, fmt.Sprintf("%s was changed at %d, by no user:\n%s", e.ref, e.version, diff))
		}
	}
	return wrong
}

// isBystander reports whether confrev has to leave an object alone altogether.
func isBystander(r ref) bool {
	return slices.Contains(bystanders, r) || r.kind() == "configmap" && !isSource(r) && sourceOf(r.name()) != "" && isForged(r)
}

// isForged reports whether an object is one that the step forge makes.
func isForged(r ref) bool {
	suffix := r.name()[len(r.name())-10:]
	return strings.Count(suffix, suffix[:1]) == len(suffix)
}

// writtenByControllers are the annotations of workloads that Kubernetes and Argo Rollouts write, and those that confrev may write
// (docs/rules/writes.md).
var writtenByControllers = []string{"deployment.kubernetes.io/revision", "rollout.argoproj.io/revision", "deprecated.daemonset.template.generation",
	keys.Hashes, keys.Held, keys.HeldHashes, keys.Advanced, keys.Paused}

// usersPart returns what of an object only its users may change.
func usersPart(obj *unstructured.Unstructured) map[string]any {
	part := runtime.DeepCopyJSON(obj.Object)
	delete(part, "status")
	copied := &unstructured.Unstructured{Object: part}
	r := refOf(obj)
	labels, annotations := copied.GetLabels(), copied.GetAnnotations()
	if isWorkload(r) || r == bystander {
		for _, key := range writtenByControllers {
			if !strings.HasPrefix(key, keys.Prefix) || r != bystander {
				delete(annotations, key)
			}
		}
	}
	if isWorkload(r) {
		template := templateOf(copied)
		unstructured.RemoveNestedField(template, "metadata", "annotations", keys.Pins)
		unstructured.RemoveNestedField(template, "metadata", "annotations", keys.Hashes)
		if metadata, ok := template["metadata"].(map[string]any); ok {
			if left, ok := metadata["annotations"].(map[string]any); ok && len(left) == 0 {
				delete(metadata, "annotations")
			}
		}
		asWritten(template["spec"])
		// confrev pauses a new Deployment until its sources exist (rule 7).
		unstructured.RemoveNestedField(part, "spec", "paused")
	}
	if isSource(r) {
		delete(labels, keys.Source)
	}
	metadata := map[string]any{"labels": labels, "annotations": annotations, "owners": copied.GetOwnerReferences(), "finalizers": copied.GetFinalizers()}
	maps.DeleteFunc(metadata, func(_ string, value any) bool { return fmt.Sprint(value) == "map[]" || fmt.Sprint(value) == "[]" })
	part["metadata"] = metadata
	return part
}

// asWritten puts the names of sources into a pod spec for those of revisions.
func asWritten(spec any) {
	eachReference(spec, func(_, field string, in map[string]any) {
		name, _ := in[field].(string)
		if source := sourceOf(name); source != "" {
			in[field] = source
		}
	})
}
