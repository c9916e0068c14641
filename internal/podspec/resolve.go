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

// Resolve does to a pod what admission does, in place, and returns what it changed: references whose source is pinned name its
// revision, and those to a whole revision are no longer optional. So a lost revision makes the pod wait instead of starting it
// without its configuration. If a reference names keys, `optional` is about the keys too, and stays.
func Resolve(spec *corev1.PodSpec, pins pin.Set) []Resolution {
	revisions := pin.Inverse(pins)
	var resolved []Resolution
	walk(spec, func(ref reference) {
		name, pinned := pins.Resolve(ref.source())
		// With injection into the template, it names the revision already.
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
