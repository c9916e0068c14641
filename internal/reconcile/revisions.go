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
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"confrev.io/confrev/internal/fleet"
	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/workload"
)

// Revisions reconciles revisions: it makes whatever pins a revision its owner, restores a revision that was deleted while in use, and deletes
// unused revisions (rules 9, 12 and 13).
type Revisions struct {
	Options rollout.Options
	// Grace is how long a revision that no one uses is kept, Workers how many revisions are worked on at a time.
	Grace   time.Duration
	Workers int
	Kinds   *workload.Kinds
	Client  client.Client
	Live    client.Reader
	Store   *revision.Store
	// Fleet knows which changes other namespaces wait for.
	Fleet   *fleet.Fleet
	Notices notice.Sink
	Now     func() time.Time

	controller controller.TypedController[revision.Ref]
	cache      cache.Cache
	outcomes   outcomes[revision.Ref]
	lost       losses
	// unused has the times at which attached sources were first seen without users, crowded those at which revisions of the anchor were last seen to
	// have many, each by UID.
	unused, crowded *lru.Cache
}

// remembered bounds each of these memories. A source that is forgotten waits longer until it is deleted.
const remembered = 20_000

const (
	// enough is how many users of a revision need be known as long as the anchor owns it: so many do not replace the anchor.
	enough = revision.Few + 1
	// crowdPause is how long a revision of the anchor that has so many is left alone. While a change rolls out, its users have hundreds of events in a
	// second, which change nothing for it; even to count 20,000 users takes milliseconds.
	crowdPause = time.Second
)

// SetUp adds the loop to a manager. Watches of workloads and holders are added as their kinds come.
func (r *Revisions) SetUp(manager ctrl.Manager) error {
	r.cache, r.unused, r.crowded = manager.GetCache(), lru.New(remembered), lru.New(remembered)
	b := builder.TypedControllerManagedBy[revision.Ref](manager).
		Named("revision").
		// It replaces all options that were given before.
		WithOptions(options[revision.Ref](r.Workers)).
		WithLogConstructor(func(ref *revision.Ref) logr.Logger {
			logger := manager.GetLogger().WithValues("controller", "revision")
			if ref != nil {
				logger = logger.WithValues("namespace", ref.Namespace, "revision", ref.Text())
			}
			return logger
		})
	for _, kind := range r.Options.SourceKinds() {
		b = b.WatchesRawSource(r.watch(revision.NewMetadata(kind), r.itself(kind)))
	}
	var err error
	r.controller, err = b.Build(untilStopped(r))
	return err
}

// WatchWorkloads makes the events of a kind's workloads reach the revisions that they use.
func (r *Revisions) WatchWorkloads(kind workload.Kind) error {
	return r.controller.Watch(r.watch(kind.New(), r.usedBy(templateUses(kind))))
}

// WatchHolders makes the events of a kind's holders reach the revisions that they use. cached is an empty object of the type in which they are cached.
func (r *Revisions) WatchHolders(kind workload.HolderKind, cached client.Object) error {
	return r.controller.Watch(r.watch(cached, r.usedBy(holderUses(kind))))
}

// Reconcile restores, owns or deletes one revision, or maintains one attached source.
func (r *Revisions) Reconcile(ctx context.Context, ref revision.Ref) (reconcile.Result, error) {
	wait, err := r.reconcile(ctx, ref)
	return r.outcomes.of(ctx, ref, wait, err)
}

func (r *Revisions) reconcile(ctx context.Context, ref revision.Ref) (time.Duration, error) {
	left, err := r.Options.LeftAlone(ctx, r.Client, r.Live, ref.Namespace)
	if err != nil || r.Options.Excluded(ref.Namespace) {
		return 0, err
	}
	if left {
		r.lost.forget(ref)
		return 0, r.unprotect(ctx, ref)
	}
	return r.maintain(ctx, ref)
}

func (r *Revisions) maintain(ctx context.Context, ref revision.Ref) (time.Duration, error) {
	obj := revision.NewMetadata(ref.Kind)
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, obj)
	if client.IgnoreNotFound(err) != nil {
		return 0, err
	}
	if err == nil {
		// Whatever brought it back: if it is lost again, that is reported again.
		r.lost.forget(ref)
		// Also while it is used: it is deleted as soon as it no longer is, if it was not about to be pinned lately.
		r.Store.Sight(obj)
		is, err := r.isRevision(ctx, obj)
		if err != nil {
			return 0, err
		}
		if !is {
			return r.keepAttached(ctx, obj, ref)
		}
	}
	anchored := err == nil && r.Store.Anchored(obj)
	if wait := r.crowdedFor(obj); anchored && wait > 0 {
		return wait, nil
	}
	users, usersErr := r.usersIndexed(ctx, ref, index.ByPin, index.ByPin, anchored)
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
	// A template may also name a revision without a pin.
	naming, err := r.namers(ctx, ref)
	if err != nil || !naming.empty() {
		return r.Grace, err
	}
	return r.sweep(ctx, obj, func(ctx context.Context) (bool, error) {
		if decides, err := r.decides(ctx, ref, obj); decides || err != nil {
			return decides, err
		}
		return r.inUse(ctx, obj, needs(ref))
	})
}

// isRevision reports whether an object is to be treated as a revision. One that only has the form of a revision may be a source that should
// be attached (rule 20).
func (r *Revisions) isRevision(ctx context.Context, obj *metav1.PartialObjectMetadata) (bool, error) {
	if !revision.IsRevision(obj) {
		return false, nil
	}
	if !attachable(obj) {
		return true, nil
	}
	return r.Store.Derived(ctx, obj)
}

// holderPatience is how long the first owner of a revision waits for a holder: a controller of Kubernetes may be behind by seconds, and a CronJob has
// none for weeks.
const holderPatience = 10 * time.Second

// own makes the users of a revision its owners. They replace the anchor as soon as all of them are known (rule 14), unless the revision has to
// outlast them.
//
// Without any owner, nothing collects a revision. With its workload alone, it would be deleted with it, and a workload that is being deleted may leave
// a holder that confrev has not seen yet. So the first owners come together with a holder.
func (r *Revisions) own(ctx context.Context, obj *metav1.PartialObjectMetadata, ref revision.Ref, users users) (time.Duration, error) {
	if len(obj.OwnerReferences) == 0 && len(users.holders) == 0 {
		if wait := r.Store.Sight(obj).Add(holderPatience).Sub(r.Now()); wait > 0 {
			return wait, nil
		}
	}
	if !r.Store.Anchored(obj) {
		return 0, r.attach(ctx, obj, users)
	}
	owners := r.owners(users)
	if len(owners) >= enough {
		r.crowded.Add(obj.UID, r.Now())
		return 0, nil
	}
	var later time.Duration
	done, wait, err := r.Store.Unanchor(ctx, obj, owners, func(ctx context.Context) (bool, error) {
		// Listing the whole namespace is expensive, so it is not repeated soon if there are other users.
		later = r.Grace
		if decides, err := r.decides(ctx, ref, obj); decides || err != nil {
			return false, err
		}
		found := 0
		hidden, err := r.usedInNamespace(ctx, obj.Namespace, func(facts workload.Facts) bool {
			if needs(ref)(facts) {
				found++
			}
			return false
		})
		return !hidden && found == len(users.templates)+len(users.holders), err
	})
	if done {
		metricOwners.Add(float64(len(users.templates) + len(users.holders)))
		log.FromContext(ctx).V(1).Info("the users of a revision own it in the place of the anchor")
		return 0, nil
	}
	return max(wait, later), err
}

// crowdedFor returns for how long a revision is still left alone, as long as the anchor owns it.
func (r *Revisions) crowdedFor(obj *metav1.PartialObjectMetadata) time.Duration {
	if seen, is := r.crowded.Get(obj.UID); is {
		return seen.(time.Time).Add(crowdPause).Sub(r.Now())
	}
	return 0
}

func (r *Revisions) attach(ctx context.Context, obj *metav1.PartialObjectMetadata, users users) error {
	added, err := r.Store.Attach(ctx, obj, r.owners(users))
	if added > 0 {
		metricOwners.Add(float64(added))
		log.FromContext(ctx).V(1).Info("attached owners", "owners", added)
	}
	return err
}

func (r *Revisions) sweep(ctx context.Context, obj *metav1.PartialObjectMetadata, inUse func(context.Context) (bool, error)) (time.Duration, error) {
	deleted, wait, err := r.Store.Sweep(ctx, obj, r.Grace, inUse)
	if deleted {
		metricDeleted.Inc()
		log.FromContext(ctx).Info("deleted what no one uses any more")
	}
	return wait, err
}

// restore recreates a revision that was deleted while in use, or warns that it cannot (rule 9). Its users are looked up live: when a
// workload is deleted, its revisions may be deleted before the cache shows that their holders are gone.
func (r *Revisions) restore(ctx context.Context, ref revision.Ref, users users) error {
	if users.empty() {
		r.lost.forget(ref)
		return nil
	}
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, revision.NewMetadata(ref.Kind))
	if err == nil || !apierrors.IsNotFound(err) {
		// It is new, and not in the cache yet; its event is on the way.
		return err
	}
	users, err = r.alive(ctx, users)
	if err != nil || users.empty() {
		r.lost.forget(ref)
		return err
	}
	source, number, ok := users.source(ref)
	if !ok {
		return nil
	}
	// Before the source is read, so that the event of a later change to it leads back here.
	known := r.lost.note(ref, source)
	restored, err := r.Store.Restore(ctx, source, ref, number)
	if err != nil {
		return err
	}
	if restored {
		r.lost.forget(ref)
		return r.announce(ctx, ref, source, users)
	}
	r.report(ctx, ref, source, users, known)
	return nil
}

func (r *Revisions) announce(ctx context.Context, ref revision.Ref, source pin.Source, users users) error {
	n := notice.Notice{Reason: notice.RevisionRecreated, Normal: true, Users: users.objects(), Source: source,
		Text: fmt.Sprintf("Recreated revision %s of %s, which was deleted while in use", ref.Name, source)}
	about := revision.Metadata(revision.Ref{Kind: source.Kind, Namespace: ref.Namespace, Name: source.Name})
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(about), about)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil {
		n.SourceObject = about
	}
	r.Notices.Send(ctx, n)
	return nil
}

// report warns each workload that uses a lost revision, once.
func (r *Revisions) report(ctx context.Context, ref revision.Ref, source pin.Source, users users, known *loss) {
	for _, n := range known.reported.News([]notice.Notice{{Reason: notice.RevisionMissing, Users: users.objects(), Source: source, Text: fmt.Sprintf(
		"revision %s was deleted while in use, and %s has other content now: pods that need it cannot start. "+
			"Restore %s's old content to get it back, or roll out the current one", ref.Name, source, source)}}) {
		r.Notices.Send(ctx, n)
	}
}
