package revision

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
)

// AnchorName is the name of the ConfigMap that owns the revisions of its namespace that have too many users to list them
// (rule 14). While it owns one, garbage collection does not touch that; confrev deletes it when nobody uses it any more.
const AnchorName = "confrev-anchor"

// Anchored tells whether the anchor owns a revision.
func (s *Store) Anchored(revision client.Object) bool {
	return slices.ContainsFunc(revision.GetOwnerReferences(), isAnchor)
}

func isAnchor(reference metav1.OwnerReference) bool {
	return reference.APIVersion == "v1" && reference.Kind == "ConfigMap" && reference.Name == AnchorName
}

// anchor makes the namespace's anchor own a revision in the place of all its users. Owners of others stay.
func (s *Store) anchor(ctx context.Context, revision *metav1.PartialObjectMetadata) error {
	uid, err := s.ensureAnchor(ctx, revision.Namespace)
	if err != nil {
		return err
	}
	references := slices.DeleteFunc(slices.Clone(revision.OwnerReferences), s.kinds.IsUser)
	references = append(references, Owner{APIVersion: "v1", Kind: "ConfigMap", Name: AnchorName, UID: uid}.reference())
	return s.setOwners(ctx, revision, references)
}

// ensureAnchor makes sure that a namespace has its anchor, and gives the anchor's UID.
func (s *Store) ensureAnchor(ctx context.Context, namespace string) (types.UID, error) {
	uid, err, _ := s.flights.Do("anchor "+namespace, func() (any, error) {
		anchor := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: AnchorName, Annotations: map[string]string{keys.Anchor: "true"},
		}}
		err := s.live.Get(ctx, client.ObjectKeyFromObject(anchor), anchor)
		if apierrors.IsNotFound(err) {
			err = s.writer.Create(ctx, anchor, client.FieldOwner(keys.FieldManager))
		}
		switch {
		case apierrors.IsAlreadyExists(err), err == nil && anchor.DeletionTimestamp != nil:
			return types.UID(""), Changed("%s", Ref{pin.ConfigMap, namespace, AnchorName})
		case err != nil:
			return types.UID(""), fmt.Errorf("make the anchor of namespace %s: %w", namespace, err)
		case anchor.Annotations[keys.Anchor] != "true":
			return types.UID(""), fmt.Errorf("%s/%s is not confrev's: delete or rename it, since confrev needs the name", namespace, AnchorName)
		}
		return anchor.UID, nil
	})
	return uid.(types.UID), err
}
