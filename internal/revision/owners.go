package revision

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
)

// Owner is a holder or a workload that should own a revision (rule 12).
type Owner struct {
	APIVersion string
	Kind       string
	Name       string
	UID        types.UID
	// AtOnce is true for a workload that must not go without the revision even if the controller, which gathers owners, does
	// not run: the webhook pins for it. Without a UID it is about to be created.
	AtOnce bool
}

// MaxOwners is how many owners a revision may list. Each takes some 200 bytes, every write of one sends all of them, and an
// object must stay far from etcd's limit of 1.5 MiB. Beyond it, the namespace's anchor owns the revision (rule 14).
const MaxOwners = 100

// Attach adds the owners that a revision lacks, in one write, and returns how many it added (rule 12). Each is read
// first: an owner whose UID is no longer that of a living object would make the garbage collector delete the revision.
func (s *Store) Attach(ctx context.Context, revision *metav1.PartialObjectMetadata, owners []Owner) (int, error) {
	lacking := missing(revision, owners)
	if len(lacking) == 0 || s.Anchored(revision) {
		return 0, nil
	}
	if !optin.Attachable(revision) {
		// To own an object is to take it along: only what is proven to be a revision gets owners.
		if derived, err := s.Derived(ctx, revision); err != nil || !derived {
			return 0, err
		}
	}
	if len(revision.OwnerReferences)+len(lacking) > MaxOwners {
		return 1, s.anchor(ctx, revision)
	}
	references, err := s.withLiving(ctx, revision.Namespace, revision.OwnerReferences, lacking)
	added := len(references) - len(revision.OwnerReferences)
	if err != nil || added == 0 {
		return 0, err
	}
	return added, s.setOwners(ctx, revision, references)
}

// withLiving returns owner references and those of the owners that are alive.
func (s *Store) withLiving(ctx context.Context, namespace string, references []metav1.OwnerReference, owners []Owner) ([]metav1.OwnerReference, error) {
	references = slices.Clone(references)
	for _, owner := range owners {
		alive, err := s.alive(ctx, namespace, owner)
		if err != nil {
			return nil, err
		}
		if alive {
			references = append(references, owner.reference())
		}
	}
	return references, nil
}

// setOwners replaces the owners of a revision or an attached source. The list is replaced as a whole, so patch's condition
// is what keeps owners that others add meanwhile. A source remembers that its owners are confrev's doing.
func (s *Store) setOwners(ctx context.Context, obj *metav1.PartialObjectMetadata, references []metav1.OwnerReference) error {
	metadata := map[string]any{"ownerReferences": references}
	if optin.Attachable(obj) {
		metadata["annotations"] = map[string]any{keys.Attached: string(obj.UID)}
	}
	return s.patch(ctx, obj, metadata)
}

// Attached reports whether confrev made the users of a source own it: this very object, not one whose annotations it was made
// with.
func Attached(source client.Object) bool {
	uid := source.GetAnnotations()[keys.Attached]
	return uid != "" && uid == string(source.GetUID())
}

// Detach takes back what Attach made of a source: it no longer goes with its users.
func (s *Store) Detach(ctx context.Context, source *metav1.PartialObjectMetadata, finalizers []string) error {
	others := slices.DeleteFunc(slices.Clone(source.OwnerReferences), func(o metav1.OwnerReference) bool {
		return s.kinds.IsUser(o) || isAnchor(o)
	})
	return s.patch(ctx, source, map[string]any{
		"ownerReferences": others, "finalizers": finalizers, "annotations": map[string]any{keys.Attached: nil},
	})
}

// joining returns the owners of a revision once a workload that is about to pin it keeps it from garbage collection, and whether
// they are others than now. To own an object is to take it along, so only what is proven to be a revision gets owners.
//
// For the controller it is enough that some workload is an owner: it gathers the others right after. Who cannot count on that adds
// the workload itself, or the anchor where it is only about to be created: garbage collection would take an owner that is not
// there yet for one that is gone. A revision without owners is left so: nothing collects it, but if this workload became the only
// owner, it would go with it, and others may have been created on it.
func (s *Store) joining(ctx context.Context, meta *metav1.PartialObjectMetadata, owner Owner) ([]metav1.OwnerReference, bool, error) {
	lacks := !s.ownedByWorkload(meta) && owner.UID != ""
	if owner.AtOnce {
		lacks = len(meta.OwnerReferences) > 0 && !s.Anchored(meta) && len(missing(meta, []Owner{owner})) > 0
	}
	if !lacks {
		return nil, false, nil
	}
	if derived, err := s.Derived(ctx, meta); err != nil || !derived {
		return nil, false, err
	}
	if owner.UID == "" || len(meta.OwnerReferences) >= MaxOwners {
		anchor, err := s.ensureAnchor(ctx, meta.Namespace)
		if err != nil && !IsChanged(err) {
			// Something else has the anchor's name, say. The pin is worth more than an owner.
			log.FromContext(ctx).Error(err, "cannot keep a revision from going with its other users until the controller adds owners", "revision", meta.Name)
			return nil, false, nil
		}
		return append(slices.Clone(meta.OwnerReferences), anchor.reference()), err == nil, err
	}
	return append(slices.Clone(meta.OwnerReferences), owner.reference()), true, nil
}

// ownedByWorkload tells whether some workload owns a revision, or the anchor in the place of many.
func (s *Store) ownedByWorkload(revision client.Object) bool {
	return s.Anchored(revision) || slices.ContainsFunc(revision.GetOwnerReferences(), s.kinds.IsWorkload)
}

func missing(revision client.Object, owners []Owner) []Owner {
	have := map[types.UID]bool{}
	for _, reference := range revision.GetOwnerReferences() {
		have[reference.UID] = true
	}
	return slices.DeleteFunc(slices.Clone(owners), func(o Owner) bool { return have[o.UID] })
}

// alive tells whether the API server has this very object, not one of the same name made later, and is keeping it.
func (s *Store) alive(ctx context.Context, namespace string, owner Owner) (bool, error) {
	meta := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: owner.APIVersion, Kind: owner.Kind}}
	err := s.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: owner.Name}, meta)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && meta.UID == owner.UID && meta.DeletionTimestamp == nil, err
}

// reference is a non-controller owner reference that blocks nothing: garbage collection needs no more, and a controller
// reference would make others think that the revision is theirs to manage.
func (o Owner) reference() metav1.OwnerReference {
	no := false
	return metav1.OwnerReference{
		APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: o.UID, Controller: &no, BlockOwnerDeletion: &no,
	}
}

// AddOwner appends an owner to those of a source or revision, live, and tells whether it was not there yet. It fails with a
// conflict when somebody else writes the object meanwhile.
func AddOwner(ctx context.Context, c client.Client, ref Ref, owner Owner) (added bool, err error) {
	meta := NewMetadata(ref.Kind)
	if err := c.Get(ctx, ref.key(), meta); err != nil {
		return false, err
	}
	if len(missing(meta, []Owner{owner})) == 0 {
		return false, nil
	}
	before := meta.DeepCopy()
	meta.OwnerReferences = append(meta.OwnerReferences, owner.reference())
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return true, c.Patch(ctx, meta, patch, client.FieldOwner(keys.FieldManager))
}
