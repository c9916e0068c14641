package revision

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// Keep makes sure, right before a workload pins an existing revision again (rule 9), that the revision exists, belongs to the
// source and is not being deleted, and that it is not deleted with its other users before confrev sees a holder of this workload
// (rules 12 and 13). shown is true if a holder of the workload pins the revision already. Then it is enough that garbage
// collection keeps the revision for the workload, and Keep writes nothing else.
func (s *Store) Keep(ctx context.Context, source pin.Source, revision Ref, owner Owner, shown bool) error {
	meta, _, err := s.Verify(ctx, source, revision)
	if err != nil {
		return err
	}
	if derived, err := s.Derived(ctx, meta); err != nil || !derived {
		// The revision may be pinned, but confrev must not change its owners.
		return err
	}
	if owner.UID != "" && shown && !s.lacksOwners(meta, []Owner{owner}) {
		return nil
	}
	metadata := map[string]any{"annotations": map[string]any{keys.Renewed: s.stamp()}}
	if err := s.ownForPinning(ctx, meta, []Owner{owner}, metadata); err != nil {
		return err
	}
	return s.patch(ctx, meta, metadata)
}

// Verify reads a revision from the API server, and returns its metadata and the Snapshot of its content. The error is one of
// Gone if the revision does not exist, is being deleted, or is not proven to be a revision of the source (rules 9 and 20).
func (s *Store) Verify(ctx context.Context, source pin.Source, revision Ref) (*metav1.PartialObjectMetadata, Snapshot, error) {
	meta := Metadata(revision)
	err := s.live.Get(ctx, revision.key(), meta)
	if client.IgnoreNotFound(err) != nil {
		return nil, Snapshot{}, fmt.Errorf("look up revision %s of %s: %w", revision, source, err)
	}
	if err != nil || meta.DeletionTimestamp != nil || !IsRevision(meta) || SourceOf(revision.Kind, meta) != source {
		return nil, Snapshot{}, &goneError{revision}
	}
	held, proven, err := s.prove(ctx, meta)
	if err != nil {
		return nil, Snapshot{}, err
	}
	if !proven {
		return nil, Snapshot{}, &goneError{revision}
	}
	return meta, held, nil
}

// Restore recreates a revision that was deleted while it was in use, under its own name, if the source still has the content that
// the name stands for (rule 9). A source that does not exist counts as empty. Restore reports whether the revision exists now. The pins are anyone's
// who may write a template, so it copies nothing that confrev never copies (rule 10), and of a Secret only what has a name that no one can guess
// (rule 22).
func (s *Store) Restore(ctx context.Context, source pin.Source, revision Ref, number int64) (bool, error) {
	data, snapshot, err := s.readOrEmpty(ctx, Ref{source.Kind, revision.Namespace, source.Name})
	if err != nil {
		return false, err
	}
	if !content.Names(source.Name, snapshot.Hash, revision.Name) || optin.WhyNeverCopied(source, data) != "" || whyNotCopyable(data) != "" {
		return false, nil
	}
	err = s.create(ctx, object(data, snapshot, revision.Name, number))
	if apierrors.IsAlreadyExists(err) {
		// It was restored meanwhile, or something else has the name now.
		held, other, err := s.read(ctx, revision, source)
		return err == nil && isImmutable(held) && other.Hash == snapshot.Hash, client.IgnoreNotFound(err)
	}
	return err == nil, err
}

// PinWindow is how long the sweeper spares a revision that is about to be pinned, unless it is told otherwise. The pin is usually written within
// milliseconds. But other webhooks may take their time, or the machine be overloaded, and the API server ends a request only after a minute
// (its flag --request-timeout). The rest is for this process, between its two requests.
const PinWindow = 90 * time.Second

// Sparing makes the Store spare revisions that are about to be pinned for less time than PinWindow. It returns the Store.
func (s *Store) Sparing(window time.Duration) *Store {
	s.pinWindow = min(window, PinWindow)
	return s
}

// Spares returns for how long the Store spares what a deploy may be about to use: PinWindow, or less.
func (s *Store) Spares() time.Duration { return s.pinWindow }

// sighting is since when this process has seen a revision renewed as it is, or not renewed at all.
type sighting struct {
	renewed string
	since   time.Time
}

// Sight notes a revision, or an attached source, as the caller sees it, and returns since when the Store has seen it about to be pinned no more often than
// that. Sweep and Unanchor count from then, by the monotonic clock of this process. The API server writes when a revision was created, and any replica
// when it was renewed, by clocks that may be hours apart, and jump. What an earlier process saw, or was forgotten, is spared for longer.
func (s *Store) Sight(revision client.Object) time.Time {
	renewed := revision.GetAnnotations()[keys.Renewed]
	if kept, ok := s.sightings.Get(revision.GetUID()); ok && kept.(sighting).renewed == renewed {
		return kept.(sighting).since
	}
	now := s.now()
	s.sightings.Add(revision.GetUID(), sighting{renewed, now})
	return now
}

// spared returns for how long a revision is still spared, of a time since it was last seen to be about to be pinned.
func (s *Store) spared(revision client.Object, window time.Duration) time.Duration {
	return s.Sight(revision).Add(window).Sub(s.now())
}

// Sweep deletes a revision that nothing pins any more, after inUse has asked the API server and found nothing that names it (rule
// 13). It spares a revision that no workload has ever owned for the grace time. It reports whether it deleted the revision, or
// returns how long to wait before trying again.
func (s *Store) Sweep(ctx context.Context, revision *metav1.PartialObjectMetadata, grace time.Duration,
	inUse func(context.Context) (bool, error),
) (deleted bool, wait time.Duration, err error) {
	for _, owner := range revision.OwnerReferences {
		if !s.kinds.IsWorkload(owner) && !isAnchor(owner) {
			// The owner is either a holder that is gone, which the garbage collector is about to remove from the list, or not
			// confrev's.
			return false, 0, nil
		}
	}
	if len(revision.OwnerReferences) > 0 {
		grace = s.pinWindow
	}
	if wait := s.spared(revision, grace); wait > 0 {
		return false, wait, nil
	}
	if mine, err := s.mayDelete(ctx, revision); err != nil || !mine {
		return false, 0, err
	}
	if used, err := inUse(ctx); err != nil || used {
		return false, grace, err
	}
	// Before a pin is written, the revision is renewed, which makes these conditions fail.
	err = s.writer.Delete(ctx, revision, client.Preconditions{UID: &revision.UID, ResourceVersion: &revision.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err):
		return false, 0, nil
	case apierrors.IsConflict(err):
		return false, 0, NewChanged("revision %s/%s", revision.Namespace, revision.Name)
	case err != nil:
		return false, 0, fmt.Errorf("delete unused revision %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	return true, 0, nil
}

// mayDelete reports whether confrev may delete an object: a revision whose name follows from its content, or a source whose users
// confrev made own it. Labels and annotations alone are no evidence, since anyone may have written them (rule 20).
func (s *Store) mayDelete(ctx context.Context, obj *metav1.PartialObjectMetadata) (bool, error) {
	if optin.Attachable(obj) && Attached(obj) && len(obj.OwnerReferences) > 0 {
		return true, nil
	}
	return s.Derived(ctx, obj)
}

// collectorPatience is how long the garbage collector may take to remove the finalizers by which it deletes or orphans an object's dependents.
const collectorPatience = time.Minute

// isStuck reports whether an object that is being deleted may stay for any time: its finalizers wait for something that may never happen. Anyone
// who may create an object can give it such finalizers, and an owner that does not exist, so that garbage collection deletes it. The garbage
// collector's own finalizers may wait for an object with others.
func (s *Store) isStuck(obj client.Object) bool {
	deleted := obj.GetDeletionTimestamp()
	if deleted == nil {
		return false
	}
	return s.now().Sub(deleted.Time) > collectorPatience || slices.ContainsFunc(obj.GetFinalizers(), func(finalizer string) bool {
		return finalizer != metav1.FinalizerDeleteDependents && finalizer != metav1.FinalizerOrphanDependents
	})
}
