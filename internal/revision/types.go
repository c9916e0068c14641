package revision

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// ListSources returns the objects of a kind in a namespace that are no revisions and that match, by name.
func ListSources(ctx context.Context, reader client.Reader, namespace string, kind pin.Kind, matches func(pin.Source) bool) ([]pin.Source, error) {
	list := NewMetadataList(kind)
	if err := reader.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var all []pin.Source
	for i := range list.Items {
		if source := (pin.Source{Kind: kind, Name: list.Items[i].Name}); !IsRevision(&list.Items[i]) && matches(source) {
			all = append(all, source)
		}
	}
	slices.SortFunc(all, pin.Source.Compare)
	return all, nil
}

// Rotates reports whether a source rotates by default, or because its annotation says so. This may depend on the type of a Secret, which its
// metadata does not show, and which never changes. If read is true, Rotates reads a type that it does not know; otherwise it returns that
// the answer is not known.
func (s *Store) Rotates(ctx context.Context, classes optin.Rotating, source pin.Source, meta *metav1.PartialObjectMetadata, read bool) (rotates, known bool, err error) {
	class := classes.Classify(source, meta)
	if class != optin.ByType {
		return class == optin.Rotated, true, nil
	}
	kept, known := s.types.Get(meta.UID)
	if !known && read {
		err = s.readType(ctx, meta)
		kept, _ = s.types.Get(meta.UID)
	}
	// There is none if the Secret was deleted or replaced meanwhile.
	secretType, _ := kept.(corev1.SecretType)
	return optin.RotatesByType(secretType), known || read, err
}

func (s *Store) readType(ctx context.Context, meta *metav1.PartialObjectMetadata) error {
	ref := Ref{kindOf(meta), meta.Namespace, meta.Name}
	_, err := share(ctx, s, "type "+ref.String()+" "+string(meta.UID), func(ctx context.Context) (struct{}, error) {
		obj, err := s.fetch(ctx, ref)
		if err != nil {
			return struct{}{}, err
		}
		// The type is known even if the key cannot be read, or there are too many keys to be remembered (rule 11).
		if key, err := s.keyFor(ctx, ref.Kind, ref.Namespace); err == nil && checkKeys(obj, ref.Source()) == nil {
			s.snapshots.Add(ref, newSnapshot(key, obj, ref.Source()))
		}
		return struct{}{}, nil
	})
	return client.IgnoreNotFound(err)
}
