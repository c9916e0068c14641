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

// Keep makes sure that an existing revision can be pinned again by a workload, right before it is (rule 9): that it is there, is
// one of the source's and is not being deleted, and that it is not deleted with its other users before a holder of this workload
// is seen (rules 12 and 13). shown is true if a holder of the workload pins it already. Then owning it is enough, and nothing
// else is written.
func (s *Store) Keep(ctx context.Context, source pin.Source, revision Ref, owner Owner, shown bool) error {
	meta, _, err := s.Verify(ctx, source, revision)
	if err != nil {
		return err
	}
	if derived, err := s.Derived(ctx, meta); err != nil || !derived {
		// It may be pinned, but confrev must not change its owners.
		return err
	}
	metadata := map[string]any{"annotations": map[string]any{keys.Renewed: s.stamp()}}
	if owner.AtOnce || owner.UID == "" {
		references, changed, err := s.ownersForPinning(ctx, meta, owner)
		if err != nil {
			return err
		}
		if changed {
			metadata["ownerReferences"] = references
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

// Verify returns the metadata of a revision and what it contains, as the API server has it. The error satisfies IsChanged if the
// revision is not there, is being deleted, or is not proven to be a revision of the source (rules 9 and 20).
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
