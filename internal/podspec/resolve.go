package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/pin"
)

// Resolution is a field of a pod spec that admission changes (rule 1): the name in a reference, or whether it is optional.
type Resolution struct {
	// Pointer is the JSON pointer of the field within the pod spec.
	Pointer string
	Value   any
}

// Resolve changes a pod as admission does, in place, and returns what it changed. References to a pinned source then name its
// revision, and references to a whole revision are no longer optional, so that a pod whose revision is lost waits instead of
// starting without its configuration. If a reference names keys, `optional` is about the keys too, and is kept.
func Resolve(spec *corev1.PodSpec, pins pin.Set) []Resolution {
	revisions := pin.Inverse(pins)
	var resolved []Resolution
	walk(spec, func(ref reference) {
		name, pinned := pins.Resolve(ref.source())
		// With injection into the template, the reference names the revision already.
		_, injected := revisions[ref.source()]
		if pinned && name != *ref.name {
			*ref.name = name
			resolved = append(resolved, Resolution{ref.pointer, name})
		}
		if (pinned || injected) && ref.keys == nil && isTrue(*ref.optional) {
			*ref.optional = new(false)
			resolved = append(resolved, Resolution{ref.pointer[:strings.LastIndex(ref.pointer, "/")] + "/optional", false})
		}
	})
	return resolved
}
