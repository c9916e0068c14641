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

// Where every use of a source is optional, pods cannot tell its absence from empty content. So that is what its absence is pinned
// to (rule 6), with the names, numbers and owners of all revisions.

// observeAbsence says of a source that does not exist what it would be if it were empty. That it does not exist may be a cache's word:
// whoever makes or pins a revision of it looks live (ensure, isCurrent).
func (s *Store) observeAbsence(ctx context.Context, source Ref, seen *Observation, revisions []metav1.PartialObjectMetadata, pinned string) error {
	var err error
	// Most of what is not there gets no revision, and needs no key.
	if seen.Key, err = s.keyFor(Provisional(ctx), source.Kind, source.Namespace); err != nil {
		return err
	}
	seen.take(snapshotUnder(seen.Key, empty(source), source.Source()))
	return s.settleName(ctx, source, seen, revisions, pinned)
}

// empty makes a source without content. It has neither UID nor resourceVersion, as what does not exist (version, isCurrent).
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
	return data, snapshotUnder(key, data, source.Source()), nil
}

// OfAbsence reports whether a revision stands for a source that did not exist: it is proven to be empty, and notes no source.
func (s *Store) OfAbsence(ctx context.Context, revision Ref) (bool, error) {
	meta := NewMetadata(revision.Kind)
	err := s.cached.Get(ctx, revision.key(), meta)
	if err != nil || !IsRevision(meta) || meta.Annotations[keys.SourceVersion] != version(empty(revision)) {
		return false, client.IgnoreNotFound(err)
	}
	held, proven, err := s.prove(ctx, meta)
	return proven && len(held.Digests) == 0, ignoreChanged(err)
}
