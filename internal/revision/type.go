package revision

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KnownType returns the type of a Secret, which its metadata does not show, if it was read here before. The type of a UID never
// changes.
func (s *Store) KnownType(meta *metav1.PartialObjectMetadata) (corev1.SecretType, bool) {
	kept, ok := s.types.Get(meta.UID)
	if !ok {
		return "", false
	}
	return kept.(corev1.SecretType), true
}

// ReadType returns the type of a Secret, which it reads unless it is known. One that is gone or replaced meanwhile has none.
func (s *Store) ReadType(ctx context.Context, meta *metav1.PartialObjectMetadata) (corev1.SecretType, error) {
	if known, ok := s.KnownType(meta); ok {
		return known, nil
	}
	ref := Ref{kindOf(meta), meta.Namespace, meta.Name}
	_, err, _ := s.flights.Do("type "+ref.String()+" "+string(meta.UID), func() (any, error) {
		obj, err := s.fetch(ctx, ref)
		if err != nil {
			return nil, err
		}
		// Where the key cannot be read, the type is known all the same.
		if key, err := s.keyFor(ctx, ref.Kind, ref.Namespace); err == nil {
			s.snapshots.Add(ref, snapshotUnder(key, obj, ref.Source()))
		}
		return nil, nil
	})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	known, _ := s.KnownType(meta)
	return known, err
}
