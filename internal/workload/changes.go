package workload

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
)

// TemplateChanges reports whether anything of a template is different except for what confrev writes there itself.
func TemplateChanges(template, old *corev1.PodTemplateSpec) bool {
	pins, _ := pin.Parse(template.Annotations[keys.Pins])
	before, _ := pin.Parse(old.Annotations[keys.Pins])
	return !equality.Semantic.DeepEqual(asWritten(template, pins, before), asWritten(old, before))
}

// restartedAt is the annotation by which `kubectl rollout restart` replaces pods.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

// Restarts reports whether only the time of a restart is different in a template: that is a change, and no deploy (rule 33).
func Restarts(template, old *corev1.PodTemplateSpec) bool {
	template, old = template.DeepCopy(), old.DeepCopy()
	for _, t := range []*corev1.PodTemplateSpec{template, old} {
		delete(t.Annotations, restartedAt)
	}
	return !TemplateChanges(template, old)
}

// asWritten returns a template without what confrev writes into it: pins, hashes, and names of what is pinned.
func asWritten(template *corev1.PodTemplateSpec, pins ...pin.Set) *corev1.PodTemplateSpec {
	written := &corev1.PodTemplateSpec{ObjectMeta: template.ObjectMeta, Spec: *podspec.Original(&template.Spec, pins...)}
	written.Annotations = map[string]string{}
	for key, value := range template.Annotations {
		if key != keys.Pins && key != keys.Hashes {
			written.Annotations[key] = value
		}
	}
	return written
}
