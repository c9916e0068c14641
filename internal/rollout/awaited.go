package rollout

import (
	"context"
	"slices"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/workload"
)

// awaited lists the sources without which a template cannot be pinned, nor its pods start (rule 7). With a CSI volume, it may
// be the first pod's mount that makes a Secret: waiting for that without a pod would never end.
func (seen observed) awaited(p plan.Plan) []string {
	var waiting []string
	for _, d := range p.Decisions {
		missing := slices.Contains([]plan.Verdict{plan.SourceMissing, plan.KeyMissing}, d.Verdict)
		if d.From == (pin.Pin{}) && missing && (d.Source.Kind != pin.Secret || !mountsCSI(&seen.template.Spec)) {
			waiting = append(waiting, d.Source.String())
		}
	}
	return waiting
}

func mountsCSI(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.CSI != nil })
}

// PausedByUs reports whether a workload is paused by confrev (rule 7).
func PausedByUs(kind workload.Kind, obj client.Object) bool {
	return obj.GetAnnotations()[keys.Paused] != "" && kind.Paused(obj)
}

// resumption returns the operations that take back confrev's own pause (rule 7).
func (r *Engine) resumption(obj client.Object) []jsonpatch.Operation {
	ops := setAnnotations("/metadata", &metav1.ObjectMeta{Annotations: obj.GetAnnotations()}, map[string]string{keys.Paused: ""})
	if r.Kind.Paused(obj) {
		ops = append(ops, jsonpatch.Operation{Operation: "remove", Path: "/spec/paused"})
	}
	return ops
}

// Resume ends confrev's own pause of a workload, although something is still missing.
func (r *Engine) Resume(ctx context.Context, obj client.Object) error {
	return r.send(ctx, obj, onlyIfUnchanged(obj, r.resumption(obj)))
}
