package revision

import (
	"cmp"
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
)

// Keep makes sure that a revision that exists can be pinned again by a workload, right before it is (rule 9): that it is
// there, is one of the source's and is not being deleted, and that it does not go with its other users before a holder of
// this workload is seen (rules 12 and 13). shown is true when a holder of the workload pins it already: it is safe then
// once the workload owns it, and nothing is written.
func (s *Store) Keep(ctx context.Context, source pin.Source, revision Ref, owner Owner, shown bool) error {
	meta := Metadata(revision)
	err := s.live.Get(ctx, revision.key(), meta)
	if apierrors.IsNotFound(err) {
		return Changed("revision %s", revision)
	}
	if err != nil {
		return err
	}
	if meta.DeletionTimestamp != nil || !IsRevision(meta) || SourceOf(revision.Kind, meta) != source {
		return Changed("revision %s", revision)
	}
	if _, proven, err := s.prove(ctx, meta); err != nil || !proven {
		return cmp.Or(err, Changed("revision %s", revision))
	}
	lacking := missing(meta, []Owner{owner})
	if derived, err := s.Derived(ctx, meta); err != nil || !derived {
		// It is used, but not confrev's to give away.
		return err
	}
	owned := s.Anchored(meta) || len(lacking) == 0
	switch {
	case owned && shown:
		return nil
	case !owned && len(meta.OwnerReferences) >= MaxOwners:
		_, err := s.Attach(ctx, meta, lacking)
		return err
	}
	metadata := map[string]any{"annotations": map[string]any{keys.Renewed: s.stamp()}}
	if !owned {
		metadata["ownerReferences"] = append(slices.Clone(meta.OwnerReferences), owner.reference())
	}
	return s.patch(ctx, meta, metadata)
}
