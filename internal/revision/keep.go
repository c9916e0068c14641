package revision

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
)

// Keep makes sure, right before a workload pins an existing revision again (rule 9), that the revision exists, belongs to the
// source and is not being deleted, and that it is not deleted with its other users before confrev sees a holder of this workload
// (rules 12 and 13). shown is true if a holder of the workload pins the revision already. Then it is enough that the workload owns
// the revision, and Keep writes nothing else.
func (s *Store) Keep(ctx context.Context, source pin.Source, revision Ref, owner Owner, shown bool) error {
	meta, _, err := s.Verify(ctx, source, revision)
	if err != nil {
		return err
	}
	if derived, err := s.Derived(ctx, meta); err != nil || !derived {
		// The revision may be pinned, but confrev must not change its owners.
		return err
	}
	metadata := map[string]any{"annotations": map[string]any{keys.Renewed: s.stamp()}}
	if owner.AtOnce || owner.UID == "" {
		if err := s.ownForPinning(ctx, meta, owner, metadata); err != nil {
			return err
		}
		return s.patch(ctx, meta, metadata)
	}
	lacking := missingOwners(meta, []Owner{owner})
	owned := s.Anchored(meta) || len(lacking) == 0
	switch {
	case owned && shown:
		return nil
	case !owned && len(meta.OwnerReferences) >= MaxOwners:
		_, err := s.Attach(ctx, meta, lacking)
		return err
	}
	if !owned {
		metadata["ownerReferences"] = append(slices.Clone(meta.OwnerReferences), owner.reference())
	}
	return s.patch(ctx, meta, metadata)
}

// Verify reads a revision from the API server, and returns its metadata and the Snapshot of its content. The error satisfies
// IsChanged if the revision does not exist, is being deleted, or is not proven to be a revision of the source (rules 9 and 20).
func (s *Store) Verify(ctx context.Context, source pin.Source, revision Ref) (*metav1.PartialObjectMetadata, Snapshot, error) {
	meta := Metadata(revision)
	err := s.live.Get(ctx, revision.key(), meta)
	if client.IgnoreNotFound(err) != nil {
		return nil, Snapshot{}, fmt.Errorf("look up revision %s of %s: %w", revision, source, err)
	}
	if err != nil || meta.DeletionTimestamp != nil || !IsRevision(meta) || SourceOf(revision.Kind, meta) != source {
		return nil, Snapshot{}, NewChanged("revision %s", revision)
	}
	held, proven, err := s.prove(ctx, meta)
	if err != nil || !proven {
		return nil, Snapshot{}, cmp.Or(err, NewChanged("revision %s", revision))
	}
	return meta, held, nil
}
