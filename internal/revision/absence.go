package revision

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
)

// If every use of a source is optional, pods cannot distinguish its absence from empty content. So absence is pinned to a revision
// with empty content (rule 6), which has a name, a number and owners like any other.

// observeAbsence describes a source that does not exist as if it were empty. The source may be missing only in the cache, so a
// caller that creates or pins a revision of it checks with the API server (ensure, isCurrent).
func (s *Store) observeAbsence(ctx context.Context, source Ref, seen *Observation, revisions []metav1.PartialObjectMetadata, pinned string) error {
	var err error
	// Most absent sources get no revision, and need no key.
	if seen.Key, err = s.keyFor(Provisional(ctx), source.Kind, source.Namespace); err != nil {
		return err
	}
	seen.setContent(newSnapshot(seen.Key, empty(source), source.Source()))
	return s.settleName(ctx, source, seen, revisions, pinned)
}

// empty returns a source without content. Like a source that does not exist, it has neither UID nor resourceVersion (version,
// isCurrent).
func empty(source Ref) client.Object {
	if source.Kind == pin.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: source.Namespace, Name: source.Name}, Type: corev1.SecretTypeOpaque}
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: source.Namespace, Name: source.Name}}
}

// readOrEmpty reads a source's data from the API server. One that does not exist is empty.
func (s *Store) readOrEmpty(ctx context.Context, source Ref) (client.Object, Snapshot, error) {
	data, snapshot, err := s.read(ctx, source, source.Source())
	if !apierrors.IsNotFound(err) {
		return data, snapshot, err
	}
	key, err := s.keyFor(ctx, source.Kind, source.Namespace)
	if err != nil {
		return nil, Snapshot{}, err
	}
	data = empty(source)
	return data, newSnapshot(key, data, source.Source()), nil
}

// OfAbsence reports whether a revision stands for a source that did not exist: the revision is proven to be empty, and names no
// version of its source.
func (s *Store) OfAbsence(ctx context.Context, revision Ref) (bool, error) {
	meta := NewMetadata(revision.Kind)
	err := s.cached.Get(ctx, revision.key(), meta)
	if err != nil || !IsRevision(meta) || meta.Annotations[keys.SourceVersion] != version(empty(revision)) {
		return false, client.IgnoreNotFound(err)
	}
	held, proven, err := s.prove(ctx, meta)
	return proven && len(held.Digests) == 0, ignoreChanged(err)
}
