package revision

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/keys"
)

// SetPropagation notes on a revision how far it has spread, on the condition that the revision is still as the cache shows it. If the note is
// to outlast the users of the revision, the same write makes the anchor own it: what was decided must not be lost because the workloads are
// deleted for which it was decided. The caller acts on what was noted, so one that is gone is an error that satisfies IsChanged.
func (s *Store) SetPropagation(ctx context.Context, ref Ref, text string, outlasts bool) error {
	meta := NewMetadata(ref.Kind)
	err := s.cached.Get(ctx, ref.key(), meta)
	if apierrors.IsNotFound(err) {
		return NewChanged("revision %s", ref)
	}
	if err != nil {
		return err
	}
	metadata := map[string]any{"annotations": map[string]any{keys.Propagation: text}}
	if outlasts {
		if err := s.ownByAnchor(ctx, meta, metadata); err != nil {
			return err
		}
	}
	return s.patch(ctx, meta, metadata)
}

// ownByAnchor adds to a patch the namespace's anchor as the owner of a revision, in the place of all users.
func (s *Store) ownByAnchor(ctx context.Context, meta *metav1.PartialObjectMetadata, metadata map[string]any) error {
	derived, err := s.Derived(ctx, meta)
	if err == nil && (!derived || s.Anchored(meta)) {
		// An owned object is deleted with its owners, so only what is proven to be a revision gets any.
		return nil
	}
	var anchor Owner
	if err == nil {
		anchor, err = s.ensureAnchor(ctx, meta.Namespace)
	}
	switch {
	case IsChanged(err):
		return err
	case err != nil:
		// For example, another object has the anchor's name. The note is more important than that it lasts.
		log.FromContext(ctx).Error(err, "what was decided about a change is lost if all users of its revision are deleted", "revision", meta.Name)
		return nil
	}
	references := slices.DeleteFunc(slices.Clone(meta.OwnerReferences), s.kinds.IsUser)
	metadata["ownerReferences"] = append(references, anchor.reference())
	return nil
}

// SourceWith returns the source of a revision, as the API server has it, if the source has the content of the revision now; nil if it does not
// exist or has other content.
func (s *Store) SourceWith(ctx context.Context, revision *metav1.PartialObjectMetadata) (client.Object, error) {
	source := SourceOf(kindOf(revision), revision)
	data, snapshot, err := s.read(ctx, Ref{source.Kind, revision.Namespace, source.Name}, source)
	if err != nil || !snapshot.names(source.Name, revision.Name) {
		return nil, client.IgnoreNotFound(err)
	}
	return data, nil
}
