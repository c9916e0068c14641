// Package reconcile watches workloads, sources and holders, and runs the two reconcilers: one pins revisions in
// workloads, the other keeps the revisions (docs/reconcile.md has the rules).
package reconcile

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"confrev.io/confrev/internal/gate"
	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/workload"
)

// Workloads reconciles the workloads of one kind: observe, plan, create revisions, write pins, say so.
type Workloads struct {
	*rollout.Engine
	// RolloutsPerHour is how often changes to sources may roll out one workload, Workers how many workloads are worked on at a time.
	RolloutsPerHour, Workers int
	Notices                  notice.Sink
	Gate                     *gate.Gate

	memory     memories
	cache      cache.Cache
	controller controller.Controller
	// followed are the kinds of other objects that are watched, since some workload restarts on them.
	mu       sync.Mutex
	followed map[schema.GroupVersionKind]bool
}

// retrySoon is when to look again after the world moved on between looking and writing: the cache is about to show it.
const retrySoon = 50 * time.Millisecond

// retryRefused is when to try again what the API server refused, such as a copy beyond a quota.
const retryRefused = time.Minute

// retryGate is when to look again whether the admission policies are in place.
const retryGate = 500 * time.Millisecond

// SetUp adds the loop to a manager.
func (r *Workloads) SetUp(manager ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(manager).
		Named(name(r.Kind)).
		For(r.Kind.New(), builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		WatchesMetadata(index.Namespace(), handler.EnqueueRequestsFromMapFunc(r.within), builder.WithPredicates(predicate.Or(
			predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(r.Kind.New(), reporter{r}.handler()).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.Workers})
	for _, kind := range r.Options.SourceKinds() {
		b = b.WatchesMetadata(revision.NewMetadata(kind), handler.EnqueueRequestsFromMapFunc(r.usersOf(kind)))
	}
	r.cache, r.followed = manager.GetCache(), map[schema.GroupVersionKind]bool{}
	var err error
	r.controller, err = b.Build(r)
	return err
}

// Follow makes changes to the workloads of a referring kind reach those that have their templates.
func (r *Workloads) Follow(other workload.Kind) error {
	return r.controller.Watch(source.Kind(r.cache, other.New(), handler.EnqueueRequestsFromMapFunc(
		func(_ context.Context, obj client.Object) []reconcile.Request { return r.referred(other, obj) })))
}

// referred returns the workload of this kind that an object of another kind names as the one that has its template.
func (r *Workloads) referred(kind workload.Kind, obj client.Object) []reconcile.Request {
	named, name, ok := kind.WorkloadRef(obj)
	if !ok || named != r.Kind.GVK.GroupKind() {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
}

// within finds the workloads of a namespace. It is asked only when those of the namespace's labels and annotations change that the cache
// keeps.
func (r *Workloads) within(ctx context.Context, namespace client.Object) []reconcile.Request {
	all := r.Kind.NewList()
	err := r.Client.List(ctx, all, client.InNamespace(namespace.GetName()), client.UnsafeDisableDeepCopy)
	found, itemsErr := index.Items(all)
	if err = errors.Join(err, itemsErr); err != nil {
		log.FromContext(ctx).Error(err, "cannot find the workloads of a namespace", "namespace", namespace.GetName())
		return nil
	}
	return requests(found)
}

// usersOf finds the workloads to which a source may matter. Revisions are the other reconciler's business; what only looks like
// one matters as a source.
func (r *Workloads) usersOf(kind pin.Kind) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		if r.Store.Proven(obj) || r.Options.Excluded(obj.GetNamespace()) {
			return nil
		}
		source := pin.Source{Kind: kind, Name: obj.GetName()}
		return append(r.indexed(ctx, obj.GetNamespace(), source.String()), r.indexed(ctx, obj.GetNamespace(), index.AnyOf(kind))...)
	}
}

// indexed finds the workloads to which what an index value stands for may matter, in one namespace or, if that is empty,
// in all. A workload that has another's template in its stead is among them when it matters to the other.
func (r *Workloads) indexed(ctx context.Context, namespace, value string) []reconcile.Request {
	found, err := index.List(ctx, r.Client, r.Kind.NewList(), namespace, index.BySource, value)
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot find the workloads that a change matters to", "changed", value)
		return nil
	}
	all := requests(found)
	for _, other := range r.Kinds.Referring() {
		found, err := index.List(ctx, r.Client, other.NewList(), namespace, index.BySource, value)
		if err != nil {
			log.FromContext(ctx).Error(err, "cannot find the workloads that a change matters to", "changed", value)
			continue
		}
		for _, obj := range found {
			all = append(all, r.referred(other, obj)...)
		}
	}
	return all
}

func requests(objects []client.Object) []reconcile.Request {
	all := make([]reconcile.Request, 0, len(objects))
	for _, obj := range objects {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
	}
	return all
}

// Reconcile brings one workload's pins to what the plan says.
func (r *Workloads) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	obj := r.Kind.New()
	err := r.Client.Get(ctx, request.NamespacedName, obj)
	if apierrors.IsNotFound(err) {
		r.memory.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if left, err := r.Options.LeftAlone(ctx, r.Client, request.Namespace); left || err != nil || obj.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, err
	}
	known := r.memory.get(request.NamespacedName, obj.GetUID())
	if obj.GetGeneration() < known.generation {
		// The cache does not show our own last write yet; its event is on the way.
		return reconcile.Result{}, nil
	}
	if named, name, ok := r.Kind.WorkloadRef(obj); ok {
		misdirected, err := r.Misdirected(ctx, obj, named, name)
		r.warn(ctx, obj, known, misdirected)
		return reconcile.Result{}, err
	}
	wait, err := r.reconcile(ctx, obj, known)
	return outcome(ctx, r.lookAgain(obj, wait), err)
}

// outcome turns what came of a reconciliation into a result: what is only out of date is looked at again without noise,
// and in a namespace that is going away nothing can be created, nor need be.
func outcome(ctx context.Context, wait time.Duration, err error) (reconcile.Result, error) {
	switch {
	case err == nil:
		return reconcile.Result{RequeueAfter: wait}, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		log.FromContext(ctx).V(1).Info("the namespace is being deleted; leaving it alone")
		return reconcile.Result{}, nil
	case revision.IsChanged(err):
		log.FromContext(ctx).V(1).Info("looking again", "because", err.Error())
		return reconcile.Result{RequeueAfter: retrySoon}, nil
	}
	return reconcile.Result{}, err
}

func (r *Workloads) reconcile(ctx context.Context, obj client.Object, known *memory) (time.Duration, error) {
	started := r.Now()
	look, err := r.Assess(ctx, obj, known.wrote)
	if look.Shown {
		known.wrote = nil
	}
	err = errors.Join(err, r.followTriggers(look.Triggers))
	known.follow(r.Kind.PinsText(obj))
	metricPlan.Observe(r.Now().Sub(started).Seconds())
	if (!look.Resumes() || err != nil) && rollout.PausedByUs(r.Kind, obj) && r.pauseLeft(obj) <= 0 {
		return 0, errors.Join(err, r.resumeWithout(ctx, obj, look.Awaited))
	}
	said := look.Warnings
	if err != nil {
		// Nothing is pinned on half of what must be known: it would be two rollouts.
		r.warn(ctx, obj, known, said)
		return 0, err
	}
	// Labels and notes are for later. If they cannot be written, pins still can.
	later := r.Refresh(ctx, look)
	if look.Paused() {
		said = append(said, r.paused(look))
	}
	if wait, problem := r.obstacle(ctx, look, known); wait > 0 {
		r.warn(ctx, obj, known, append(said, problem...))
		return wait, later
	}
	limited := r.Limit(ctx, &look)
	refused, err := r.write(ctx, &look, known)
	if wait := known.refusedOnce(err); wait > 0 {
		log.FromContext(ctx).V(1).Info("looking again", "because", err.Error())
		return wait, later
	}
	refused, err = sayConfined(slices.Concat(limited, refused), err)
	r.warn(ctx, obj, known, append(said, refused...))
	if len(refused) > 0 || look.Retry {
		return retryRefused, errors.Join(later, err)
	}
	return 0, errors.Join(later, err)
}

// obstacle returns how long to wait before a change may be written, and what to say of it.
func (r *Workloads) obstacle(ctx context.Context, look rollout.Assessment, known *memory) (time.Duration, []notice.Notice) {
	change := look.Change()
	if wait := known.settle(change, look.Config.Settle, r.Now()); wait > 0 {
		return wait, nil
	}
	wait, problem := r.obstructed(ctx, look.Workload, change, known)
	return wait, []notice.Notice{problem}
}

// obstructed reports whether something keeps a change from being written now, what to say of it and when to look again.
func (r *Workloads) obstructed(ctx context.Context, obj client.Object, change rollout.Change, known *memory) (time.Duration, notice.Notice) {
	if change.Text == "" {
		return 0, notice.Notice{}
	}
	if problem := r.Gate.Problem(); problem != nil && change.NeedsPolicies {
		// A pin that nothing resolves would only look as if it kept the promise.
		return retryGate, notice.Notice{Reason: notice.PoliciesNotReady, Text: problem.Error()}
	}
	times := plan.MaxReverts
	if change.OnlyInjects {
		times = plan.MaxReapplied
	}
	if wait := known.reverts.Backoff(change.Text, times, r.Now()); wait > 0 {
		if known.reverts.Lost {
			return wait, r.NotKept()
		}
		return wait, notice.Notice{Reason: notice.Reverted, Text: r.reverter(ctx, obj, times)}
	}
	return r.overspent(obj, change, known)
}

// write makes the revisions that the change needs, then writes template and notes in one patch. It returns what it refused to do
// and why.
func (r *Workloads) write(ctx context.Context, look *rollout.Assessment, known *memory) ([]notice.Notice, error) {
	made, refused, err := r.Prepare(ctx, look)
	r.tell(ctx, made)
	if err != nil {
		return nil, err
	}
	written, err := r.Write(ctx, look)
	switch {
	case err != nil:
		return refused, err
	case written.Pruned:
		// So that it is not written again and again.
		known.reverts.Pruned(written.Change.Text, r.Now())
		return append(refused, r.NotKept()), nil
	case written.Gave != nil || written.Restarted:
		metricLatency.Observe(r.Now().Sub(known.settling.Since()).Seconds())
		known.wroteNow(look.Workload.GetGeneration(), written, r.Now())
	}
	return refused, nil
}

// tell sends what happened.
func (r *Workloads) tell(ctx context.Context, happened []notice.Notice) {
	for _, n := range happened {
		r.Notices.Send(ctx, n)
	}
}

// warn reports what has not been reported before, on the workload.
func (r *Workloads) warn(ctx context.Context, obj client.Object, known *memory, all []notice.Notice) {
	for _, n := range known.reported.News(all) {
		n.Object, n.Kind = obj, r.Kind.Resource()
		r.Notices.Send(ctx, n)
	}
}

// name returns a kind's unique name among controllers.
func name(kind workload.Kind) string { return strings.ToLower(kind.GVK.GroupKind().String()) }
