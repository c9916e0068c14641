package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"
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
			var o outcomes[string]
			result, err := o.of(t.Context(), "web", 0, test.err)
			if !errors.Is(err, test.wantErr) || (err == nil) != (test.wantErr == nil) {
				t.Errorf("error %v, want %v", err, test.wantErr)
			}
			if (result.RequeueAfter > 0) != test.soon {
				t.Errorf("looks again after %s", result.RequeueAfter)
			}
		})
	}
}

// What looks like a change may be something that stays: it must not take all of confrev's time, and who reads the log must learn of it.
func TestWhatChangesEachTimeIsLookedAtLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o outcomes[string]
		var logged []string
		ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{}))
		again := func(of string, err error) time.Duration {
			result, _ := o.of(ctx, of, time.Hour, err)
			return result.RequeueAfter
		}
		changed := revision.NewChanged("deployment default/web")
		began, looks := time.Now(), 0
		for time.Since(began) < time.Minute {
			looks++
			time.Sleep(again("web", changed))
			if time.Since(began) < changesFor && len(logged) > 0 {
				t.Fatalf("after %s: %q", time.Since(began), logged)
			}
		}
		if looks > 20 {
			t.Errorf("%d looks within a minute", looks)
		}
		if len(logged) != 1 || !strings.Contains(logged[0], "deployment default/web") {
			t.Errorf("logged %q", logged)
		}
		if got := again("api", changed); got != retrySoon {
			t.Errorf("another one is looked at again after %s", got)
		}
		if got := again("web", nil); got != time.Hour {
			t.Errorf("after a success: %s", got)
		}
		again("api", errors.New("no route to host"))
		if len(o.changed) > 0 {
			t.Errorf("%d are remembered", len(o.changed))
		}
		if got := again("web", changed); got != retrySoon {
			t.Errorf("the next time, it is looked at again after %s", got)
		}
	})
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

// As long as something fails, the alert ConfrevErrors needs more than ten errors in a quarter of an hour; and once it works again, a change is not late by
// a quarter of an hour, as it is with the controllers of Kubernetes.
func TestWhatFailsIsTriedAgainWithinAMinute(t *testing.T) {
	limiter := options[string](1).RateLimiter
	var waits []time.Duration
	for range 50 {
		waits = append(waits, limiter.When("web"))
	}
	if first, last := waits[0], waits[len(waits)-1]; first > 10*time.Millisecond || last != time.Minute {
		t.Errorf("it is tried again after %s, and after %s when it has failed many times", first, last)
	}
	// When the API server is away for a moment, all workloads fail at once: none of them waits for others.
	for i := range 1000 {
		if wait := limiter.When(fmt.Sprint("other-", i)); wait > 10*time.Millisecond {
			t.Fatalf("with %d others that failed once, one is tried again after %s", i, wait)
		}
	}
}
