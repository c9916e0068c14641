package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"confrev.io/confrev/internal/admission"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// workloads reconciles the workloads of one kind: observe, plan, create revisions, write pins, say so.
type workloads struct {
	kind    workload.Kind
	options Options
	client  client.Client
	store   *revision.Store
	events  *recorder
	gate    *admission.Gate
	now     func() time.Time
	memory  *memories
}

// retrySoon is when to look again after the world moved on between looking and writing: the cache is about to show it.
const retrySoon = 50 * time.Millisecond

// retryRefused is when to try again what the API server refused, such as a copy beyond a quota.
const retryRefused = time.Minute

// retryGate is when to look again whether the admission policies are in place.
const retryGate = 500 * time.Millisecond

func (r *workloads) setUp(manager ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(manager).
		Named(r.kind.Resource()).
		For(r.kind.New(), builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.options.Workers})
	for _, kind := range r.options.sourceKinds() {
		b = b.WatchesMetadata(revision.NewMetadata(kind), handler.EnqueueRequestsFromMapFunc(r.usersOf(kind)))
	}
	return b.Complete(r)
}

// usersOf finds the workloads that track a source. Revisions are the other reconciler's business.
func (r *workloads) usersOf(kind pin.Kind) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		if revision.IsRevision(obj) || r.options.excluded(obj.GetNamespace()) {
			return nil
		}
		source := pin.Source{Kind: kind, Name: obj.GetName()}
		found, err := list(ctx, r.client, r.kind.NewList(), obj.GetNamespace(), bySource, source.String())
		if err != nil {
			log.FromContext(ctx).Error(err, "cannot find the workloads that track a source", "source", source)
			return nil
		}
		var requests []reconcile.Request
		for _, w := range found {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w)})
		}
		return requests
	}
}

// Reconcile brings one workload's pins to what the plan says.
func (r *workloads) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	obj := r.kind.New()
	err := r.client.Get(ctx, request.NamespacedName, obj)
	if apierrors.IsNotFound(err) {
		r.memory.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if obj.GetDeletionTimestamp() != nil || r.options.excluded(request.Namespace) {
		return reconcile.Result{}, nil
	}
	known := r.memory.get(request.NamespacedName, obj.GetUID())
	if obj.GetGeneration() < known.generation {
		// The cache does not show our own last write yet; its event is on the way.
		return reconcile.Result{}, nil
	}
	wait, err := r.reconcile(ctx, obj, known)
	return outcome(ctx, wait, err)
}

// outcome turns what came of a reconciliation into a result: what is only out of date is looked at again without noise,
// and in a namespace that is going away nothing can be created, nor need be.
func outcome(ctx context.Context, wait time.Duration, err error) (reconcile.Result, error) {
	switch {
	case err == nil:
		return reconcile.Result{RequeueAfter: wait}, nil
	case apierrors.HasStatusCause(err, namespaceTerminating):
		log.FromContext(ctx).V(1).Info("the namespace is being deleted; leaving it alone")
		return reconcile.Result{}, nil
	case revision.IsChanged(err):
		log.FromContext(ctx).V(1).Info("looking again", "because", err.Error())
		return reconcile.Result{RequeueAfter: retrySoon}, nil
	}
	return reconcile.Result{}, err
}

func (r *workloads) reconcile(ctx context.Context, obj client.Object, known *memory) (time.Duration, error) {
	started := r.now()
	seen, err := r.observe(ctx, obj, known)
	p := plan.Make(seen.input)
	metricPlan.Observe(r.now().Sub(started).Seconds())
	if err != nil {
		// Nothing is pinned on half of what must be known: it would be two rollouts.
		r.warn(obj, known, seen.warnings)
		return 0, err
	}
	// Labels and notes are for later. If they cannot be written, pins still can.
	later := r.refresh(ctx, seen, p)
	if wait := r.settle(seen, p, known); wait > 0 {
		r.warn(obj, known, slices.Concat(seen.warnings, warnings(p)))
		return wait, later
	}
	if problem := r.gate.Problem(); problem != nil && p.Changed() {
		// A pin that nothing resolves would only look as if it kept the promise.
		closed := warning{reason: reasonPoliciesMissing, note: problem.Error()}
		r.warn(obj, known, slices.Concat(seen.warnings, []warning{closed}, warnings(p)))
		return retryGate, later
	}
	refused, err := r.write(ctx, obj, seen, p, known)
	r.warn(obj, known, slices.Concat(seen.warnings, refused, warnings(p)))
	if len(refused) > 0 {
		return retryRefused, errors.Join(later, err)
	}
	return 0, errors.Join(later, err)
}

// refresh keeps the sources' labels and the notes on the revisions that are current.
func (r *workloads) refresh(ctx context.Context, seen observed, p plan.Plan) error {
	var errs []error
	for _, d := range p.Decisions {
		if d.Current == (pin.Pin{}) {
			continue
		}
		source := revision.Ref{Kind: d.Source.Kind, Namespace: seen.namespace, Name: d.Source.Name}
		errs = append(errs, r.store.Label(ctx, source), r.store.Refresh(ctx, source, seen.sources[d.Source], d.Current))
	}
	return errors.Join(errs...)
}

// settle gives how long to wait before the plan's advances may be written (rule 2).
func (r *workloads) settle(seen observed, p plan.Plan, known *memory) time.Duration {
	if !p.Changed() {
		known.settling = plan.Settling{}
		return 0
	}
	now := r.now()
	known.settling = known.settling.Observe(p.Pins.String(), now)
	if p.Urgent() {
		return 0
	}
	return known.settling.Remaining(seen.settle, now)
}

// warnings gives what the user should know of the plan, but for what is said of writes.
func warnings(p plan.Plan) []warning {
	var all []warning
	for _, d := range p.Decisions {
		switch d.Verdict {
		case plan.SourceMissing:
			all = append(all, warning{reason: reasonSourceMissing, note: missingSource(d)})
		case plan.KeyMissing:
			all = append(all, warning{reason: reasonKeyMissing, note: missingKeys(d)})
		}
	}
	return all
}

func missingSource(d plan.Decision) string {
	if d.From == (pin.Pin{}) {
		return fmt.Sprintf("%s does not exist; new pods cannot start until it is created", d.Source)
	}
	return fmt.Sprintf("%s does not exist any more; pods keep using its revision %s", d.Source, d.From)
}

func missingKeys(d plan.Decision) string {
	if d.From == (pin.Pin{}) {
		return fmt.Sprintf("%s lacks %q, which a container requires; it is pinned once it has it", d.Source, d.Keys)
	}
	return fmt.Sprintf("%s lacks %q, which a container requires; pods keep using its revision %s", d.Source, d.Keys, d.From)
}

// warn says what has not been said before, on the workload.
func (r *workloads) warn(obj client.Object, known *memory, all []warning) {
	for _, w := range known.news(all) {
		r.events.warn(obj, w, "Plan")
		metricWarnings.WithLabelValues(w.reason).Inc()
	}
}

// list reads the objects of a namespace that an index holds under a value, without copying them: callers do not change
// them.
func list(ctx context.Context, reader client.Reader, into client.ObjectList, namespace, field, value string) ([]client.Object, error) {
	err := reader.List(ctx, into, client.InNamespace(namespace), client.MatchingFields{field: value}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, err
	}
	return items(into)
}

func key(obj client.Object) types.NamespacedName { return client.ObjectKeyFromObject(obj) }
