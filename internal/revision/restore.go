package revision

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/pin"
)

// Restore recreates a revision that was deleted while it was in use, under its own name, if the source still has the content that
// the name stands for (rule 9). A source that does not exist counts as empty. Restore reports whether the revision exists now.
func (s *Store) Restore(ctx context.Context, source pin.Source, revision Ref, number int64) (bool, error) {
	data, snapshot, err := s.readOrEmpty(ctx, Ref{source.Kind, revision.Namespace, source.Name})
	if err != nil {
		return false, err
	}
	if !snapshot.names(source.Name, revision.Name) {
		return false, nil
	}
	_, err = s.create(ctx, object(data, snapshot, revision.Name, number))
	if apierrors.IsAlreadyExists(err) {
		// It was restored meanwhile, or something else has the name now.
		held, other, err := s.read(ctx, revision, source)
		return err == nil && isImmutable(held) && other.Hash == snapshot.Hash, client.IgnoreNotFound(err)
	}
	return err == nil, err
}

// names reports whether a revision of the source with this content may have this name. It may be a name from before hashes were
// keyed.
func (s Snapshot) names(source, name string) bool {
	return content.Names(source, s.Hash, name) || s.PlainHash != "" && content.Names(source, s.PlainHash, name)
}
