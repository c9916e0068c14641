// Package workload adapts kinds of workloads, and of the holders that keep their templates, to confrev's reconcilers.
// All that differs between kinds is here; nothing else switches on a kind.
package workload

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
)

// Kind adapts one kind of workload: an object with a pod template.
type Kind interface {
	// Resource is the kind as kubectl takes it: "deployment".
	Resource() string
	// New and NewList make empty objects to read into.
	New() client.Object
	NewList() client.ObjectList
	// Template gives the pod template within the object, not a copy.
	Template(client.Object) *corev1.PodTemplateSpec
	// TemplatePath is the JSON pointer of the template.
	TemplatePath() string
	// Compact drops what confrev does not need of an object that goes into the cache.
	Compact(client.Object)
	// Holder adapts the objects that keep this kind's templates alive.
	Holder() HolderKind
}

// HolderKind adapts one kind of holder: an object that keeps one template of a workload alive, and owns the revisions
// that the template pins (rule 12).
type HolderKind interface {
	Resource() string
	New() client.Object
	NewList() client.ObjectList
	// PinsText gives the template's pins annotation, which may be malformed.
	PinsText(client.Object) string
	// Order is higher the later the workload last rolled out this template.
	Order(client.Object) int64
	// Compact drops all but the few strings that rules 4 and 12 need.
	Compact(client.Object)
}

// Kinds are the kinds of workloads that confrev handles.
func Kinds() []Kind { return []Kind{Deployment{}} }

// Pins reads the pins of a workload's template. Malformed pins read as none, and as an error.
func Pins(kind Kind, obj client.Object) (pin.Set, error) {
	return pin.Parse(kind.Template(obj).Annotations[keys.Pins])
}

// Track reads what a workload asks confrev to track. With an error it is what could be read.
func Track(obj client.Object) (plan.Track, error) {
	return plan.ParseTrack(obj.GetAnnotations()[keys.Track])
}

// Tracked gives the uses of the sources that a workload tracks, of the kinds that are enabled.
func Tracked(kind Kind, obj client.Object, enabled func(pin.Kind) bool) (uses []podspec.Use, unused []pin.Source, err error) {
	track, err := Track(obj)
	if !track.Enabled() {
		return nil, nil, err
	}
	uses, unused = track.Select(podspec.Uses(&kind.Template(obj).Spec), enabled)
	return uses, unused, err
}
