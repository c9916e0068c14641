package reconcile

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/rollout"
)

// giveBack lets others take a change for which a workload has a place and that it does not take now, if it is certain that it was not written (rule 38).
func (r *Workloads) giveBack(ctx context.Context, look rollout.Assessment, written rollout.Written, err error) {
	if err != nil && !isRefusal(err) {
		return
	}
	if r.GiveBack(ctx, look, written.Gave != nil && !written.Pruned) {
		r.Conductor.Look(look.Spreading()...)
	}
}

// isRefusal reports whether an error is the API server's answer that it does not write something.
func isRefusal(err error) bool {
	if _, terminal := errors.AsType[*notice.TerminalError](err); terminal {
		return true
	}
	status, is := errors.AsType[*apierrors.StatusError](err)
	return is && status.ErrStatus.Code >= http.StatusBadRequest && status.ErrStatus.Code < http.StatusInternalServerError
}
