package revision

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
)

// AnchorName is the name of the ConfigMap that owns the revisions of its namespace that have too many users to list (rule 14).
// Garbage collection does not delete a revision while the anchor owns it; confrev does, once nothing uses the revision.
const AnchorName = "confrev-anchor"

// Anchored reports whether the anchor owns a revision.
func (s *Store) Anchored(revision client.Object) bool {
	return slices.ContainsFunc(revision.GetOwnerReferences(), isAnchor)
}

func isAnchor(reference metav1.OwnerReference) bool {
	return reference.APIVersion == "v1" && reference.Kind == "ConfigMap" && reference.Name == AnchorName
}

// anchor makes the namespace's anchor own a revision instead of all its users. Owners that are not its users stay.
func (s *Store) anchor(ctx context.Context, revision *metav1.PartialObjectMetadata) error {
	anchor, err := s.ensureAnchor(ctx, revision.Namespace)
	if err != nil {
		return err
	}
	references := slices.DeleteFunc(slices.Clone(revision.OwnerReferences), s.kinds.IsUser)
	return s.setOwners(ctx, revision, append(references, anchor.reference()))
}

// Unanchor makes the users of a revision own it instead of the anchor, once they are few enough to leave room for more. The caller
// may not know a user that has pinned the revision recently, so Unanchor first calls complete, which searches everything and
// reports whether the API server has no other users. Unanchor reports whether the users own the revision now, or returns how long
// to wait before trying again.
func (s *Store) Unanchor(ctx context.Context, revision *metav1.PartialObjectMetadata, users []Owner,
	complete func(context.Context) (bool, error),
) (done bool, wait time.Duration, err error) {
	if len(users) > MaxOwners/2 {
		return false, 0, nil
	}
	if wait := s.renewed(revision).Add(PinWindow).Sub(s.now()); wait > 0 {
		return false, wait, nil
	}
	if mine, err := s.Derived(ctx, revision); err != nil || !mine {
		return false, 0, err
	}
	if all, err := complete(ctx); err != nil || !all {
		return false, 0, err
	}
	others := slices.DeleteFunc(slices.Clone(revision.OwnerReferences), func(o metav1.OwnerReference) bool {
		return s.kinds.IsUser(o) || isAnchor(o)
	})
	references, err := s.withLiving(ctx, revision.Namespace, others, users)
	if err != nil || !slices.ContainsFunc(references, s.kinds.IsWorkload) {
		return false, 0, err
	}
	return true, 0, s.setOwners(ctx, revision, references)
}

// ensureAnchor makes sure that a namespace has its anchor, and returns it as an owner.
func (s *Store) ensureAnchor(ctx context.Context, namespace string) (Owner, error) {
	uid, err, _ := s.flights.Do("anchor "+namespace, func() (any, error) {
		anchor := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: AnchorName, Annotations: map[string]string{keys.Anchor: "true"},
		}}
		err := s.live.Get(ctx, client.ObjectKeyFromObject(anchor), anchor)
		if apierrors.IsNotFound(err) {
			err = s.writer.Create(ctx, anchor, client.FieldOwner(keys.FieldManager))
		}
		switch {
		case apierrors.IsAlreadyExists(err), err == nil && anchor.DeletionTimestamp != nil:
			return types.UID(""), NewChanged("%s", Ref{pin.ConfigMap, namespace, AnchorName})
		case err != nil:
			return types.UID(""), fmt.Errorf("create the anchor of namespace %s: %w", namespace, err)
		case anchor.Annotations[keys.Anchor] != "true":
			return types.UID(""), fmt.Errorf("%s/%s was not created by confrev: delete or rename it, since confrev needs the name", namespace, AnchorName)
		}
		return anchor.UID, nil
	})
	return Owner{APIVersion: "v1", Kind: "ConfigMap", Name: AnchorName, UID: uid.(types.UID)}, err
}
