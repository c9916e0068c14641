package revision

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/optin"
)

// PinWindow is how long the sweeper spares a revision that is about to be pinned. The pin is written within milliseconds.
const PinWindow = 5 * time.Second

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
		grace = PinWindow
	}
	if wait := s.renewed(revision).Add(grace).Sub(s.now()); wait > 0 {
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
