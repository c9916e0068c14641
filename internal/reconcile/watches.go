package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/trigger"
	"confrev.io/confrev/internal/workload"
)

// SetUp adds the loop to a manager.
func (r *Workloads) SetUp(manager ctrl.Manager) error {
	options := options[reconcile.Request](r.Workers)
	options.NewQueue = r.Backlog.queue
	b := ctrl.NewControllerManagedBy(manager).
		Named(name(r.Kind)).
		For(r.Kind.New(), builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		Watches(r.Kind.New(), reporter{r}.handler()).
		WatchesRawSource(source.Func(r.woken.start)).
		WithOptions(options)
	if !r.Options.Namespaced() {
		b = b.WatchesMetadata(index.Namespace(), handler.EnqueueRequestsFromMapFunc(r.within), builder.WithPredicates(predicate.Or(
			predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{})))
	}
	for _, kind := range r.Options.SourceKinds() {
		b = b.WatchesMetadata(revision.NewMetadata(kind), handler.EnqueueRequestsFromMapFunc(r.usersOf(kind)))
	}
	r.cache, r.followed = manager.GetCache(), map[schema.GroupVersionKind]time.Time{}
	var err error
	r.controller, err = b.Build(untilStopped(r))
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

// within returns the workloads of a namespace whose labels or annotations changed. The cache keeps only those that matter, so it is rarely
// called.
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

// usersOf returns the workloads to which a source may matter. Revisions are left to the other reconciler; an object that only has the form of
// a revision matters as a source.
func (r *Workloads) usersOf(kind pin.Kind) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		if r.Store.Proven(obj) || r.Options.Excluded(obj.GetNamespace()) {
			return nil
		}
		source := pin.Source{Kind: kind, Name: obj.GetName()}
		return append(r.indexed(ctx, obj.GetNamespace(), index.BySource, source.String()),
			r.indexed(ctx, obj.GetNamespace(), index.BySource, index.AnyOf(kind))...)
	}
}

// indexed returns the workloads under a value of an index, in one namespace or, for what is in none, in all.
func (r *Workloads) indexed(ctx context.Context, namespace, field, value string) []reconcile.Request {
	found, err := index.List(ctx, r.Client, r.Kind.NewList(), namespace, field, value)
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot find the workloads that a change matters to", "changed", value)
		return nil
	}
	return requests(found)
}

func requests(objects []client.Object) []reconcile.Request {
	all := make([]reconcile.Request, 0, len(objects))
	for _, obj := range objects {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
	}
	return all
}

// name returns a kind's unique name among controllers.
func name(kind workload.Kind) string { return strings.ToLower(kind.GVK.GroupKind().String()) }

// followTriggers makes changes to objects of other kinds reach a workload that names them. While those of a kind cannot be watched, it lets the loop look at
// the workload again and again.
func (r *Workloads) followTriggers(ctx context.Context, look *rollout.Assessment) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, kind := range look.Triggers {
		err := r.follow(kind)
		synced := false
		if err == nil {
			synced, err = r.watches(ctx, kind)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("follow %s: %w", kind.GVK, err))
			continue
		}
		look.Retry = look.Retry || !synced
		if !synced && r.Now().Sub(r.followed[kind.GVK]) >= retryRefused {
			look.Warnings = append(look.Warnings, notice.Warning(notice.RestartOnDelayed, pin.Source{}, "annotation %s: the API server fails to list %s, "+
				"so confrev looks once a minute whether what is named has changed", keys.RestartOn, kind.Kind))
		}
	}
	return errors.Join(errs...)
}

// follow watches the objects of a kind, unless it does already. The caller holds the lock.
func (r *Workloads) follow(kind trigger.Kind) error {
	if !r.followed[kind.GVK].IsZero() {
		return nil
	}
	err := r.controller.Watch(source.Kind(r.Triggers, metadata.New(kind.GVK), handler.TypedEnqueueRequestsFromMapFunc(
		func(ctx context.Context, changed *metav1.PartialObjectMetadata) []reconcile.Request {
			return r.indexed(ctx, changed.Namespace, index.ByTrigger, pin.Source{Kind: kind.Kind, Name: changed.Name}.String())
		})))
	if err == nil {
		r.followed[kind.GVK] = r.Now()
	}
	return err
}

// watches reports whether changes to the objects of a kind arrive.
func (r *Workloads) watches(ctx context.Context, kind trigger.Kind) (bool, error) {
	informer, err := r.Triggers.GetInformer(ctx, metadata.New(kind.GVK), cache.BlockUntilSynced(false))
	return err == nil && informer.HasSynced(), err
}

type (
	refQueue   = workqueue.TypedRateLimitingInterface[revision.Ref]
	refHandler = handler.TypedFuncs[client.Object, revision.Ref]
)

func (r *Revisions) watch(obj client.Object, h refHandler) source.TypedSource[revision.Ref] {
	return source.TypedKind[client.Object, revision.Ref](r.cache, obj, h)
}

// itself enqueues revisions, and sources that may be attached, for their own events; and lost revisions for those of their sources, whose
// content may be the old one again.
func (r *Revisions) itself(kind pin.Kind) refHandler {
	enqueue := func(obj client.Object, q refQueue) {
		ref := revision.Ref{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
		if kept(obj) {
			q.Add(ref)
		}
		for _, lost := range r.lost.from(ref) {
			q.Add(lost)
		}
	}
	return refHandler{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q refQueue) { enqueue(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q refQueue) { enqueue(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q refQueue) { enqueue(e.Object, q) },
	}
}

// kept reports whether the reconciler of revisions handles an object: a revision, or a source that may be attached or once was.
func kept(obj client.Object) bool { return revision.IsRevision(obj) || attachable(obj) }

// attachable reports whether an object is a source that may be attached, or once was.
func attachable(obj client.Object) bool {
	return optin.Attachable(obj) || revision.Attached(obj) || slices.Contains(obj.GetFinalizers(), keys.ProtectFinalizer)
}

// used are what an object's template uses: the revisions that it pins, and the sources that it names. asks is whether a workload wants
// these attached, as far as it says so itself.
type used struct {
	pins, names []string
	asks        string
}

func (u used) same(as used) bool {
	return sameSet(u.pins, as.pins) && sameSet(u.names, as.names) && u.asks == as.asks
}

// templateUses returns what a workload's template uses. Names matter in any mode: what another workload attaches stays for all that
// name it.
func templateUses(kind workload.Kind) func(client.Object) used {
	return func(obj client.Object) used {
		annotations := obj.GetAnnotations()
		u := used{pins: index.Pins(kind.PinsText(obj)), asks: annotations[keys.Mode] + " " + annotations[keys.Track] + " " + obj.GetLabels()[keys.Track]}
		// The reconciler of workloads reports what cannot be read.
		uses, _ := kind.Uses(obj)
		for _, use := range uses {
			u.names = append(u.names, use.String())
		}
		return u
	}
}

func holderUses(kind workload.HolderKind) func(client.Object) used {
	return func(obj client.Object) used {
		facts := kind.Facts(obj)
		return used{pins: index.Pins(facts.Pins), names: facts.References}
	}
}

// usedBy returns a handler that enqueues what an object uses, or used before the event.
func (r *Revisions) usedBy(uses func(client.Object) used) refHandler {
	enqueue := func(ctx context.Context, namespace string, u used, q refQueue) {
		for _, text := range u.pins {
			r.enqueue(ctx, namespace, text, true, q)
		}
		for _, text := range u.names {
			r.enqueue(ctx, namespace, text, false, q)
		}
	}
	return refHandler{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q refQueue) {
			enqueue(ctx, e.Object.GetNamespace(), uses(e.Object), q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q refQueue) {
			before, after := uses(e.ObjectOld), uses(e.ObjectNew)
			if !before.same(after) {
				enqueue(ctx, e.ObjectNew.GetNamespace(), before, q)
				enqueue(ctx, e.ObjectNew.GetNamespace(), after, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q refQueue) {
			enqueue(ctx, e.Object.GetNamespace(), uses(e.Object), q)
		},
	}
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

const (
	// gatherPerOwner and gatherMost determine how long events of a revision's users are gathered before its owners are written: the more
	// owners it has, the longer. The first owner is written at once, so that garbage collection always finds one. A thousand workloads
	// that share a source cause a few writes, not a thousand (rule 12). What the anchor owns is in no hurry, and each look at it reads all
	// its users.
	gatherPerOwner = 10 * time.Millisecond
	gatherMost     = 500 * time.Millisecond
)

// enqueue enqueues what a template uses: revisions, even if they were deleted, and sources that may be attached.
func (r *Revisions) enqueue(ctx context.Context, namespace, text string, pinned bool, q refQueue) {
	// The index has revisions in the text form of sources.
	named, err := pin.ParseSource(text)
	if err != nil || !r.Options.Enabled(named.Kind) {
		return
	}
	ref := revision.Ref{Kind: named.Kind, Namespace: namespace, Name: named.Name}
	meta := revision.Metadata(ref)
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(meta), meta)
	switch {
	case err == nil && kept(meta):
		q.AddAfter(ref, r.gathers(meta))
	case pinned:
		// It is not in the cache: it is new, or deleted. Either way it has no known owner.
		q.Add(ref)
	}
}

// gathers returns how long events of the users of a revision are gathered.
func (r *Revisions) gathers(meta client.Object) time.Duration {
	if r.Store.Anchored(meta) {
		return gatherMost
	}
	return min(gatherMost, time.Duration(len(meta.GetOwnerReferences()))*gatherPerOwner)
}
