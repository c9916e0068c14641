package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
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

// pausedByUs reports whether a workload is paused by confrev (rule 7).
func (r *workloads) pausedByUs(obj client.Object) bool {
	return obj.GetAnnotations()[keys.Paused] != "" && r.kind.Paused(obj)
}

// pauseLeft returns how much longer confrev's own pause of a workload may last. It counts from the workload's creation, which
// no restart of confrev forgets.
func (r *workloads) pauseLeft(obj client.Object) time.Duration {
	return obj.GetCreationTimestamp().Add(r.kind.MaxPause(obj)).Sub(r.now())
}

// lookAgain returns when to look at a workload again, given when there is something else to do: no later than when confrev's
// own pause of it must end. 0 means never.
func (r *workloads) lookAgain(obj client.Object, wait time.Duration) time.Duration {
	if !r.pausedByUs(obj) {
		return wait
	}
	left := max(r.pauseLeft(obj), retrySoon)
	if wait == 0 {
		return left
	}
	return min(wait, left)
}

// resumeWithout ends a pause that has lasted as long as it may, although something is still missing, and says so.
func (r *workloads) resumeWithout(ctx context.Context, obj client.Object, awaited []string) error {
	missing := obj.GetAnnotations()[keys.Paused]
	if len(awaited) > 0 {
		missing = strings.Join(awaited, ",")
	}
	if err := r.send(ctx, obj, onlyIfUnchanged(obj, r.resumption(obj))); err != nil {
		return err
	}
	r.notices.Send(ctx, notice.Notice{Reason: notice.PauseEnded, Object: obj, Kind: r.kind.Resource(), Text: fmt.Sprintf(
		"Resumed %s after its creation although %s cannot be pinned: pods that require it wait for it. Once it is there, it is pinned, which "+
			"is one more rollout", r.kind.MaxPause(obj), missing)})
	return nil
}

// resumption returns the operations that take back confrev's own pause (rule 7).
func (r *workloads) resumption(obj client.Object) []operation {
	ops := setAnnotations("/metadata", &metav1.ObjectMeta{Annotations: obj.GetAnnotations()}, map[string]string{keys.Paused: ""})
	if r.kind.Paused(obj) {
		ops = append(ops, operation{Op: "remove", Path: "/spec/paused"})
	}
	return ops
}
