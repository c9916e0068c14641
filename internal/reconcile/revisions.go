package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// revisions reconciles revisions: what pins one owns it, one that vanished while in use comes back, and one that
// no one uses goes (rules 9, 12 and 13).
type revisions struct {
	options Options
	kinds   *workload.Kinds
	client  client.Client
	live    client.Reader
	store   *revision.Store
	notices notice.Sink
	// lost remembers which losses were reported.
	lost *memories
	// unused has since when an attached source was seen without users.
	unused *lru.Cache
	now    func() time.Time
}

// maxUnused bounds what is remembered of unused sources. Forgetting makes them wait longer.
const maxUnused = 20_000

// setUp makes the controller; assembly adds the watches of workloads and holders.
func (r *revisions) setUp(manager ctrl.Manager) (controller.TypedController[revision.Ref], error) {
	b := builder.TypedControllerManagedBy[revision.Ref](manager).
		Named("revision").
		WithLogConstructor(func(ref *revision.Ref) logr.Logger {
			logger := manager.GetLogger().WithValues("controller", "revision")
			if ref != nil {
				logger = logger.WithValues("namespace", ref.Namespace, "revision", ref.Text())
			}
			return logger
		}).
		WithOptions(controller.TypedOptions[revision.Ref]{MaxConcurrentReconciles: r.options.Workers})
	for _, kind := range r.options.SourceKinds() {
		b = b.WatchesRawSource(watch(manager.GetCache(), revision.NewMetadata(kind), r.itself(kind)))
	}
	return b.Build(r)
}

// Reconcile keeps one revision.
func (r *revisions) Reconcile(ctx context.Context, ref revision.Ref) (reconcile.Result, error) {
	left, err := r.options.LeftAlone(ctx, r.client, ref.Namespace)
	if err != nil || r.options.Excluded(ref.Namespace) {
		return reconcile.Result{}, err
	}
	if left {
		return outcome(ctx, 0, r.unprotect(ctx, ref))
	}
	wait, err := r.reconcile(ctx, ref)
	return outcome(ctx, wait, err)
}

func (r *revisions) reconcile(ctx context.Context, ref revision.Ref) (time.Duration, error) {
	obj := revision.NewMetadata(ref.Kind)
	err := r.client.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, obj)
	if client.IgnoreNotFound(err) != nil {
		return 0, err
	}
	if err == nil {
		is, err := r.isRevision(ctx, obj)
		if err != nil {
			return 0, err
		}
		if !is {
			return r.keepAttached(ctx, obj, ref)
		}
	}
	users, usersErr := r.pinners(ctx, ref)
	switch {
	case usersErr != nil:
		return 0, usersErr
	case apierrors.IsNotFound(err):
		return 0, r.restore(ctx, ref, users)
	case obj.DeletionTimestamp != nil:
		return 0, nil
	case !users.empty():
		return r.own(ctx, obj, ref, users)
	}
	// What a template names without a pin is in use as well.
	naming, err := r.namers(ctx, ref)
	if err != nil || !naming.empty() {
		return r.options.Grace, err
	}
	return r.sweep(ctx, obj, r.options.Grace, func(ctx context.Context) (bool, error) { return r.inUse(ctx, obj, needs(ref)) })
}

// isRevision reports whether to keep an object as a revision. One that only looks like it may be a source to be attached.
func (r *revisions) isRevision(ctx context.Context, obj *metav1.PartialObjectMetadata) (bool, error) {
	if !revision.IsRevision(obj) {
		return false, nil
	}
	if !attachable(obj) {
		return true, nil
	}
	return r.store.Derived(ctx, obj)
}

// own makes the users of a revision own it, in the place of the anchor as soon as they are all known.
func (r *revisions) own(ctx context.Context, obj *metav1.PartialObjectMetadata, ref revision.Ref, users users) (time.Duration, error) {
	if !r.store.Anchored(obj) {
		return 0, r.attach(ctx, obj, users)
	}
	var later time.Duration
	done, wait, err := r.store.Unanchor(ctx, obj, r.owners(users), func(ctx context.Context) (bool, error) {
		// Should there be others, the look through the namespace is not to be repeated soon.
		later = r.options.Grace
		found := 0
		_, err := r.usedInNamespace(ctx, obj.Namespace, func(facts workload.Facts) bool {
			if needs(ref)(facts) {
				found++
			}
			return false
		})
		return found == len(users.templates)+len(users.holders), err
	})
	if done {
		metricOwners.Add(float64(len(users.templates) + len(users.holders)))
		log.FromContext(ctx).V(1).Info("the users of a revision own it in the place of the anchor")
		return 0, nil
	}
	return max(wait, later), err
}

func (r *revisions) attach(ctx context.Context, obj *metav1.PartialObjectMetadata, users users) error {
	added, err := r.store.Attach(ctx, obj, r.owners(users))
	if err != nil || added == 0 {
		return err
	}
	metricOwners.Add(float64(added))
	log.FromContext(ctx).V(1).Info("attached owners", "owners", added)
	return nil
}

func (r *revisions) sweep(ctx context.Context, obj *metav1.PartialObjectMetadata, grace time.Duration,
	inUse func(context.Context) (bool, error),
) (time.Duration, error) {
	deleted, wait, err := r.store.Sweep(ctx, obj, grace, inUse)
	if deleted {
		metricDeleted.Inc()
		log.FromContext(ctx).Info("deleted what no one uses any more")
	}
	return wait, err
}

// restore brings back a revision that vanished while in use, or says that it cannot (rule 9). Who uses it is looked up
// live: when a workload is deleted, its revisions may go before the cache shows that their holders went.
func (r *revisions) restore(ctx context.Context, ref revision.Ref, users users) error {
	name := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Text()}
	if users.empty() {
		r.lost.forget(name)
		return nil
	}
	err := r.live.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, revision.NewMetadata(ref.Kind))
	if err == nil || !apierrors.IsNotFound(err) {
		// New, and not in the cache yet; its event is on the way.
		return err
	}
	users, err = r.alive(ctx, users)
	if err != nil || users.empty() {
		r.lost.forget(name)
		return err
	}
	source, number, ok := users.source(ref)
	if !ok {
		return nil
	}
	restored, err := r.store.Restore(ctx, source, ref, number)
	if err != nil {
		return err
	}
	if restored {
		r.lost.forget(name)
		return r.announce(ctx, ref, source, users)
	}
	r.report(ctx, ref, source, users, r.lost.get(name, ""))
	return nil
}

func (r *revisions) announce(ctx context.Context, ref revision.Ref, source pin.Source, users users) error {
	n := notice.Notice{Reason: notice.RevisionRecreated, Normal: true, Users: users.objects(), Source: source,
		Text: fmt.Sprintf("Recreated revision %s of %s, which was deleted while in use", ref.Name, source)}
	about := revision.Metadata(revision.Ref{Kind: source.Kind, Namespace: ref.Namespace, Name: source.Name})
	err := r.client.Get(ctx, client.ObjectKeyFromObject(about), about)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil {
		n.SourceObject = about
	}
	r.notices.Send(ctx, n)
	return nil
}

// report reports on every workload that uses a lost revision that it is lost, once.
func (r *revisions) report(ctx context.Context, ref revision.Ref, source pin.Source, users users, known *memory) {
	for _, n := range known.reported.News([]notice.Notice{{Reason: notice.RevisionMissing, Users: users.objects(), Source: source, Text: fmt.Sprintf(
		"revision %s was deleted while in use, and %s has other content now: pods that need it cannot start. "+
			"Restore %s's old content to get it back, or roll out the current one", ref.Name, source, source)}}) {
		r.notices.Send(ctx, n)
	}
}
