package reconcile

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"confrev.io/confrev/internal/revision"
)

func TestOutcome(t *testing.T) {
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "app-bbbbbbbbbb", errors.New("going away"))
	terminating.ErrStatus.Details.Causes = append(terminating.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	other := errors.New("no route to host")
	tests := map[string]struct {
		err     error
		soon    bool
		wantErr error
	}{
		"all went well":                     {},
		"the world moved on":                {err: revision.NewChanged("deployment default/web"), soon: true},
		"the world moved on, among others":  {err: errors.Join(nil, fmt.Errorf("x: %w", revision.NewChanged("y"))), soon: true},
		"the namespace is being deleted":    {err: terminating},
		"what may go well when tried again": {err: other, wantErr: other},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			result, err := outcome(t.Context(), 0, test.err)
			if !errors.Is(err, test.wantErr) || (err == nil) != (test.wantErr == nil) {
				t.Errorf("error %v, want %v", err, test.wantErr)
			}
			if (result.RequeueAfter > 0) != test.soon {
				t.Errorf("looks again after %s", result.RequeueAfter)
			}
		})
	}
}

// A reconciliation that confrev's own end cut off is not logged as an error.
func TestTheEndOfConfrevIsNoError(t *testing.T) {
	cut := reconcile.TypedFunc[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
		if err := ctx.Err(); err != nil {
			return reconcile.Result{}, fmt.Errorf("read configmap/app: %w", err)
		}
		return reconcile.Result{}, errors.New("no route to host")
	})
	ctx, stop := context.WithCancel(t.Context())
	if _, err := untilStopped(cut).Reconcile(ctx, "web"); err == nil {
		t.Error("an error of a confrev that runs is lost")
	}
	stop()
	if _, err := untilStopped(cut).Reconcile(ctx, "web"); err != nil {
		t.Errorf("after its end, it fails: %v", err)
	}
}
