package revision

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KnownType returns the type of a Secret, which its metadata does not show, if the Secret was read before. The type of a Secret
// never changes.
func (s *Store) KnownType(meta *metav1.PartialObjectMetadata) (corev1.SecretType, bool) {
	kept, ok := s.types.Get(meta.UID)
	if !ok {
		return "", false
	}
	return kept.(corev1.SecretType), true
}

// ReadType returns the type of a Secret, which it reads if the type is not known. The type is empty if the Secret was deleted or
// replaced meanwhile.
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
		// The type is known even if the key cannot be read.
		if key, err := s.keyFor(ctx, ref.Kind, ref.Namespace); err == nil {
			s.snapshots.Add(ref, newSnapshot(key, obj, ref.Source()))
		}
		return nil, nil
	})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	known, _ := s.KnownType(meta)
	return known, err
}
