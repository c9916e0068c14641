// Package controller watches workloads, sources and holders, and runs the two reconcilers: one pins revisions in
// workloads, the other keeps the revisions (docs/reconcile.md has the rules).
package controller

import (
	"context"
	"errors"
	"fmt"
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

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/gate"
	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// workloads reconciles the workloads of one kind: observe, plan, create revisions, write pins, say so.
type workloads struct {
	kind    workload.Kind
	kinds   *workload.Kinds
	options Options
	client  client.Client
	live    client.Reader
	// whole reads holders with their templates, of which the cache keeps only facts: the API server, or for the plugin its snapshot, so
	// that the right to list is enough there.
	whole    client.Reader
	store    *revision.Store
	triggers *triggers
	accounts *accounts
	notices  notice.Sink
	gate     *gate.Gate
	now      func() time.Time
	memory   *memories
	// elected is closed once this process leads; it ends when it no longer does.
	elected <-chan struct{}

	controller controller.Controller
	// followed are the kinds of other objects that are watched, since some workload restarts on them.
	mu       sync.Mutex
	followed map[schema.GroupVersionKind]bool
}

// leads reports whether the reconcilers run in this process.
func (r *workloads) leads() bool {
	select {
	case <-r.elected:
		return true
	default:
		return false
	}
}

// retrySoon is when to look again after the world moved on between looking and writing: the cache is about to show it.
const retrySoon = 50 * time.Millisecond

// retryRefused is when to try again what the API server refused, such as a copy beyond a quota.
const retryRefused = time.Minute

// retryGate is when to look again whether the admission policies are in place.
const retryGate = 500 * time.Millisecond

func (r *workloads) setUp(manager ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(manager).
		Named(name(r.kind)).
		For(r.kind.New(), builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		WatchesMetadata(index.Namespace(), handler.EnqueueRequestsFromMapFunc(r.within), builder.WithPredicates(predicate.Or(
			predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(r.kind.New(), reporter{r}.handler()).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.options.Workers})
	for _, kind := range r.options.sourceKinds() {
		b = b.WatchesMetadata(revision.NewMetadata(kind), handler.EnqueueRequestsFromMapFunc(r.usersOf(kind)))
	}
	var err error
	r.controller, err = b.Build(r)
	return err
}

// follow makes changes of the workloads of a referring kind reach those that have their templates.
func (r *workloads) follow(c cache.Cache, other workload.Kind) error {
	return r.controller.Watch(source.Kind(c, other.New(), handler.EnqueueRequestsFromMapFunc(
		func(_ context.Context, obj client.Object) []reconcile.Request { return r.referred(other, obj) })))
}

// referred gives the workload of this kind that an object of another kind names as the one that has its template.
func (r *workloads) referred(kind workload.Kind, obj client.Object) []reconcile.Request {
	named, name, ok := kind.WorkloadRef(obj)
	if !ok || named != r.kind.GVK.GroupKind() {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
}

// within finds the workloads of a namespace. It is asked only when those of the namespace's labels and annotations change that the cache
// keeps.
func (r *workloads) within(ctx context.Context, namespace client.Object) []reconcile.Request {
	all := r.kind.NewList()
	err := r.client.List(ctx, all, client.InNamespace(namespace.GetName()), client.UnsafeDisableDeepCopy)
	found, itemsErr := index.Items(all)
	if err = errors.Join(err, itemsErr); err != nil {
		log.FromContext(ctx).Error(err, "cannot find the workloads of a namespace", "namespace", namespace.GetName())
		return nil
	}
	return requests(found)
}

// usersOf finds the workloads to which a source may matter. Revisions are the other reconciler's business; what only looks like
// one matters as a source.
func (r *workloads) usersOf(kind pin.Kind) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		if r.store.Proven(obj) || r.options.excluded(obj.GetNamespace()) {
			return nil
		}
		source := pin.Source{Kind: kind, Name: obj.GetName()}
		return append(r.indexed(ctx, obj.GetNamespace(), source.String()), r.indexed(ctx, obj.GetNamespace(), index.AnyOf(kind))...)
	}
}

// indexed finds the workloads to which what an index value stands for may matter, in one namespace or, if that is empty,
// in all. A workload that has another's template in its stead is among them when it matters to the other.
func (r *workloads) indexed(ctx context.Context, namespace, value string) []reconcile.Request {
	found, err := index.List(ctx, r.client, r.kind.NewList(), namespace, index.BySource, value)
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot find the workloads that a change matters to", "changed", value)
		return nil
	}
	all := requests(found)
	for _, other := range r.kinds.Referring() {
		found, err := index.List(ctx, r.client, other.NewList(), namespace, index.BySource, value)
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
	if left, err := r.options.leftAlone(ctx, r.client, request.Namespace); left || err != nil || obj.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, err
	}
	known := r.memory.get(request.NamespacedName, obj.GetUID())
	if obj.GetGeneration() < known.generation {
		// The cache does not show our own last write yet; its event is on the way.
		return reconcile.Result{}, nil
	}
	if named, name, ok := r.kind.WorkloadRef(obj); ok {
		misdirected, err := r.misdirected(ctx, obj, named, name)
		r.warn(ctx, obj, known, misdirected)
		return reconcile.Result{}, err
	}
	wait, err := r.reconcile(ctx, obj, known)
	return outcome(ctx, r.lookAgain(obj, wait), err)
}

// misdirected says so when a workload that opted in has its template in a kind of object that confrev does not handle.
func (r *workloads) misdirected(ctx context.Context, obj client.Object, named schema.GroupKind, name string) ([]notice.Notice, error) {
	asked, _, err := asks(ctx, r.client, r.kinds, r.options, r.kind, obj)
	handled := slices.ContainsFunc(r.kinds.All(), func(k workload.Kind) bool { return k.GVK.GroupKind() == named })
	if err != nil || handled || !asked.Track.Enabled() {
		return nil, err
	}
	return []notice.Notice{{Reason: notice.NoPodTemplate, Text: fmt.Sprintf(
		"its pod template is in %s %s, which is not a kind of workload that confrev handles", named, name)}}, nil
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

// intent is what should become of a workload: the plans of its pins and of its hashes.
type intent struct {
	pins, hashes plan.Plan
	// release is true when pins of the template are to go, although nothing else of the intent changes.
	release bool
	// resume is true when confrev's own pause is to end (rule 7).
	resume bool
	// inject are the references of the template that are to name something else.
	inject []injection
	// restart is true when pods are to be replaced although the template stays: for what rotates, where that is asked for.
	restart bool
}

// changes tells whether the template must be written.
func (i intent) changes() bool {
	return i.pins.Changed() || i.hashes.Changed() || i.release || len(i.inject) > 0
}

// text stands for all that the template should say.
func (i intent) text() string {
	text := i.pins.Pins.String() + " " + i.hashes.Pins.String()
	if i.onlyInjects() {
		text += " injected"
	}
	return text
}

// onlyInjects tells whether nothing but the names of references changes.
func (i intent) onlyInjects() bool {
	return len(i.inject) > 0 && !i.pins.Changed() && !i.hashes.Changed() && !i.release
}

func (r *workloads) reconcile(ctx context.Context, obj client.Object, known *memory) (time.Duration, error) {
	started := r.now()
	seen, want, err := r.lookAndPlan(ctx, obj, view{
		known: known, reader: r.client, stays: func(a optin.Advance) bool { return a.Blocks(false) },
	})
	if err == nil {
		want, err = r.endHolds(ctx, obj, nil, &seen, want)
	}
	known.follow(r.kind.PinsText(obj))
	awaited := seen.awaited(want.pins)
	want.resume = obj.GetAnnotations()[keys.Paused] != "" && (!r.kind.Paused(obj) || len(awaited) == 0)
	metricPlan.Observe(r.now().Sub(started).Seconds())
	if (!want.resume || err != nil) && r.pausedByUs(obj) && r.pauseLeft(obj) <= 0 {
		return 0, errors.Join(err, r.resumeWithout(ctx, obj, awaited))
	}
	if err != nil {
		// Nothing is pinned on half of what must be known: it would be two rollouts.
		r.warn(ctx, obj, known, seen.warnings)
		return 0, err
	}
	// Labels and notes are for later. If they cannot be written, pins still can.
	later := r.refresh(ctx, seen, want.pins)
	said := slices.Concat(seen.warnings, warnings(want.pins, true), warnings(want.hashes, false))
	if r.pausedByUs(obj) && !want.resume {
		said = append(said, notice.Notice{Reason: notice.Paused, Normal: true, Text: fmt.Sprintf(
			"Paused at its creation until %s can be pinned, for %s at most, so that its first %s is right already; resuming it goes on without",
			strings.Join(awaited, ", "), r.kind.MaxPause(obj), r.kind.Holder.GVK.Kind)})
	}
	if wait := r.settle(seen, want, known); wait > 0 {
		r.warn(ctx, obj, known, said)
		return wait, later
	}
	if wait, problem := r.obstructed(ctx, obj, seen, want, known); wait > 0 {
		r.warn(ctx, obj, known, append(said, problem))
		return wait, later
	}
	limited := r.limit(ctx, seen, &want)
	said = append(said, limited...)
	r.restartInstead(obj, seen, &want)
	refused, err := r.write(ctx, obj, seen, want, known)
	if wait := known.refusedOnce(err); wait > 0 {
		log.FromContext(ctx).V(1).Info("looking again", "because", err.Error())
		return wait, later
	}
	refused, err = sayConfined(refused, err)
	r.warn(ctx, obj, known, append(said, refused...))
	if len(refused)+len(limited) > 0 || seen.retry {
		return retryRefused, errors.Join(later, err)
	}
	return 0, errors.Join(later, err)
}

// intend makes the plans.
func (r *workloads) intend(seen observed) intent {
	want := intent{pins: plan.Make(seen.pins), hashes: plan.Make(seen.hashes)}
	if seen.template == nil {
		return want
	}
	want.release = seen.asked.Mode == optin.Attach && seen.asked.Track.Enabled() && len(seen.pins.Pins) > 0 || seen.pins.PinsAbsence()
	if seen.unbounded {
		want.pins.Pins, want.pins.Held = seen.pins.Pins, seen.pins.Held
		return want
	}
	want.injectAgain(seen)
	return want
}

// injectAgain finds the references to change anew, after some pin or hash is not to change after all.
func (i *intent) injectAgain(seen observed) {
	i.inject = nil
	if !seen.unbounded && (i.release || seen.follows()) {
		i.inject = seen.injections(i.pins.Pins, i.pins.Changed() || i.hashes.Changed() || i.release)
	}
}

// obstructed tells whether something keeps the intent from being written now, what to say of it and when to look again.
func (r *workloads) obstructed(ctx context.Context, obj client.Object, seen observed, want intent, known *memory) (time.Duration, notice.Notice) {
	if !want.changes() {
		return 0, notice.Notice{}
	}
	if problem := r.gate.Problem(); problem != nil && seen.needsPolicies(want) {
		// A pin that nothing resolves would only look as if it kept the promise.
		return retryGate, notice.Notice{Reason: notice.PoliciesNotReady, Text: problem.Error()}
	}
	times := plan.MaxReverts
	if want.onlyInjects() {
		times = plan.MaxReapplied
	}
	if wait := known.reverts.Backoff(want.text(), times, r.now()); wait > 0 {
		if known.reverts.Lost {
			return wait, r.prunes()
		}
		return wait, notice.Notice{Reason: notice.Reverted, Text: r.reverter(ctx, obj, times)}
	}
	return r.overspent(obj, want, known)
}

// needsPolicies tells whether an intent writes pins that only admission resolves.
func (seen observed) needsPolicies(want intent) bool {
	return seen.asked.Injection == optin.Admission && len(want.pins.Pins) > 0 && (want.pins.Changed() || len(want.inject) > 0)
}

// limit takes back the restarts for what changes too often (rule 11); pins are limited where revisions are made.
func (r *workloads) limit(ctx context.Context, seen observed, want *intent) []notice.Notice {
	var limited []notice.Notice
	for i := range want.hashes.Decisions {
		d := &want.hashes.Decisions[i]
		if d.To == d.From {
			continue
		}
		hash := seen.sources[d.Source].Hash
		if hash == "" {
			hash = content.Hash(d.To.Revision)
		}
		err := r.store.Admit(ctx, revision.Ref{Kind: d.Source.Kind, Namespace: seen.namespace, Name: d.Source.Name}, hash, 0)
		if terminal, ok := errors.AsType[*revision.TerminalError](err); ok {
			limited = append(limited, notice.Notice{Reason: terminal.Reason, Source: d.Source, Text: terminal.Message})
			want.hashes.Repin(d, d.From)
		}
	}
	if len(limited) > 0 {
		want.injectAgain(seen)
	}
	return limited
}

// refresh keeps the sources' labels and the notes on the revisions that are current. A label only helps people to list things:
// where it cannot be written, since a policy keeps everyone from what a GitOps tool manages, say, the rollout goes on without.
func (r *workloads) refresh(ctx context.Context, seen observed, p plan.Plan) error {
	var errs []error
	for _, d := range p.Decisions {
		if d.Current == (pin.Pin{}) {
			continue
		}
		source := revision.Ref{Kind: d.Source.Kind, Namespace: seen.namespace, Name: d.Source.Name}
		if err := r.store.Label(ctx, source); err != nil && !revision.IsChanged(err) {
			log.FromContext(ctx).Info("cannot label a source; going on without", "source", d.Source.String(), "error", err.Error())
		}
		errs = append(errs, r.store.Refresh(ctx, source, seen.sources[d.Source], d.Current))
	}
	return errors.Join(errs...)
}

// settle gives how long to wait before the plan's advances may be written (rule 2).
func (r *workloads) settle(seen observed, want intent, known *memory) time.Duration {
	if !want.changes() {
		known.settling = plan.Settling{}
		return 0
	}
	now := r.now()
	known.settling = known.settling.Observe(want.text(), now)
	// A template without a pin does not keep the promise; nor does one whose references were put back behind its pins,
	// where nothing else resolves them.
	if want.pins.Urgent() || want.onlyInjects() {
		return 0
	}
	return known.settling.Remaining(seen.asked.Settle, now)
}
