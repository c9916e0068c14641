package reconcile

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"confrev.io/confrev/internal/revision"
)

const (
	// retrySoon is how long to wait after an object changed between reading and writing: the cache is about to show the change.
	retrySoon = 50 * time.Millisecond
	// retryLatest bounds that wait, which is twice as long each time that the object changed again: what looks like a change may be something
	// that stays.
	retryLatest = 5 * time.Second
	// changesFor is how long an object may change each time before the log says so.
	changesFor = 30 * time.Second
	// failedSoon is how long to wait after a first error, failedLatest after any. A change is late by so much once what failed works again, such as
	// a webhook of someone else, and as long as it does not, the errors of a quarter of an hour keep the alert ConfrevErrors firing.
	failedSoon   = 5 * time.Millisecond
	failedLatest = time.Minute
)

// options returns the options of a loop with so many workers.
func options[request comparable](workers int) controller.TypedOptions[request] {
	return controller.TypedOptions[request]{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[request](failedSoon, failedLatest),
	}
}

// outcomes turns the outcomes of one loop's reconciliations into results; the zero value is ready to use. It remembers the objects that changed
// meanwhile, each time since it looked at them.
type outcomes[request comparable] struct {
	mu      sync.Mutex
	changed map[request]*changes
}

// changes are those of one object.
type changes struct {
	since time.Time
	wait  time.Duration
	told  bool
}

// of returns the result of a reconciliation. An object that changed meanwhile is no error to log, only a reason to look again. In a namespace
// that is being deleted nothing can be created, and nothing need be.
func (o *outcomes[request]) of(ctx context.Context, r request, wait time.Duration, err error) (reconcile.Result, error) {
	if revision.IsChanged(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return reconcile.Result{RequeueAfter: o.again(ctx, r, err)}, nil
	}
	o.mu.Lock()
	delete(o.changed, r)
	o.mu.Unlock()
	switch {
	case err == nil:
		return reconcile.Result{RequeueAfter: wait}, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		log.FromContext(ctx).V(1).Info("the namespace is being deleted; leaving it alone")
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}

// again returns how long to wait before looking again at what changed.
func (o *outcomes[request]) again(ctx context.Context, r request, err error) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.changed[r]
	if known == nil {
		if known = (&changes{since: time.Now()}); o.changed == nil {
			o.changed = map[request]*changes{}
		}
		o.changed[r] = known
	}
	known.wait = min(max(2*known.wait, retrySoon), retryLatest)
	logger := log.FromContext(ctx).WithValues("because", err.Error())
	if time.Since(known.since) < changesFor || known.told {
		logger.V(1).Info("looking again")
		return known.wait
	}
	known.told = true
	logger.Info("what is about to be written changes each time, or cannot be as it has to be; still trying", "for", time.Since(known.since).Round(time.Second).String())
	return known.wait
}
