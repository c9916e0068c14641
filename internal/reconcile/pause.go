package reconcile

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/rollout"
)

// pauseLeft returns how much longer confrev's own pause of a workload may last. It counts from the workload's creation, which
// no restart of confrev forgets.
func (r *Workloads) pauseLeft(obj client.Object) time.Duration {
	return obj.GetCreationTimestamp().Add(r.Kind.MaxPause(obj)).Sub(r.Now())
}

// lookAgain returns when to look at a workload again, given when there is something else to do: no later than when confrev's
// own pause of it must end. 0 means never.
func (r *Workloads) lookAgain(obj client.Object, wait time.Duration) time.Duration {
	if !rollout.PausedByUs(r.Kind, obj) {
		return wait
	}
	left := max(r.pauseLeft(obj), retrySoon)
	if wait == 0 {
		return left
	}
	return min(wait, left)
}

// resumeWithout ends a pause that has lasted as long as it may, although something is still missing, and says so.
func (r *Workloads) resumeWithout(ctx context.Context, obj client.Object, awaited []string) error {
	missing := obj.GetAnnotations()[keys.Paused]
	if len(awaited) > 0 {
		missing = strings.Join(awaited, ",")
	}
	if err := r.Resume(ctx, obj); err != nil {
		return err
	}
	r.Notices.Send(ctx, notice.Notice{Reason: notice.PauseEnded, Object: obj, Kind: r.Kind.Resource(), Text: fmt.Sprintf(
		"Resumed %s after its creation although %s cannot be pinned: pods that require it wait for it. Once it is there, it is pinned, which "+
			"is one more rollout", r.Kind.MaxPause(obj), missing)})
	return nil
}

// paused returns the notice that confrev pauses a workload, and for how long.
func (r *Workloads) paused(look rollout.Assessment) notice.Notice {
	return notice.Notice{Reason: notice.Paused, Normal: true, Text: fmt.Sprintf(
		"Paused at its creation until %s can be pinned, for %s at most, so that its first %s is right already; resume it to continue without",
		strings.Join(look.Awaited, ", "), r.Kind.MaxPause(look.Workload), r.Kind.Holder.GVK.Kind)}
}
