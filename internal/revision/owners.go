package revision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// Owner is a holder or a workload that should own a revision (rule 12). A workload without a UID is about to be created.
type Owner struct {
	APIVersion string
	Kind       string
	Name       string
	UID        types.UID
}

// MaxOwners is the number of owners that a revision may list. Each takes about 200 bytes, each write sends all of them, and an
// object must stay far below etcd's limit of 1.5 MiB. If there are more, the namespace's anchor owns the revision (rule 14).
const MaxOwners = 100

// Few is how many users at most replace the anchor: so many leave room for more.
const Few = MaxOwners / 2

// Attach adds the owners that a revision lacks, in one write, and returns how many it added (rule 12). Each owner is read first:
// if its UID is no longer that of a living object, the garbage collector would delete the revision. After a conflict it does not wait for the cache:
// garbage collection may delete the revision before.
func (s *Store) Attach(ctx context.Context, revision *metav1.PartialObjectMetadata, owners []Owner) (added int, err error) {
	err = s.afterConflicts(ctx, revision, func(now *metav1.PartialObjectMetadata) bool {
		return now.UID == revision.UID
	}, func(meta *metav1.PartialObjectMetadata) (err error) {
		added, err = s.attach(ctx, meta, owners)
		return err
	})
	return added, err
}

func (s *Store) attach(ctx context.Context, revision *metav1.PartialObjectMetadata, owners []Owner) (int, error) {
	lacking := missingOwners(revision, owners)
	if len(lacking) == 0 || s.Anchored(revision) {
		return 0, nil
	}
	if !optin.Attachable(revision) {
		// An owned object is deleted with its owners, so only what is proven to be a revision gets any.
		if derived, err := s.Derived(ctx, revision); err != nil || !derived {
			return 0, err
		}
	}
	if len(revision.OwnerReferences)+len(lacking) > MaxOwners {
		if err := s.anchor(ctx, revision); err != nil {
			return 0, err
		}
		return 1, nil
	}
	// Those that could be read become owners even if others could not: the revision might be deleted while the others are tried again.
	references, err := s.withLiving(ctx, revision.Namespace, revision.OwnerReferences, lacking)
	added := len(references) - len(revision.OwnerReferences)
	if added == 0 {
		return 0, err
	}
	if written := s.setOwners(ctx, revision, references); written != nil {
		return 0, errors.Join(written, err)
	}
	return added, err
}

// withLiving returns owner references together with those of the owners that are alive. Its error is about owners that could not be read, which
// are left out.
func (s *Store) withLiving(ctx context.Context, namespace string, references []metav1.OwnerReference, owners []Owner) ([]metav1.OwnerReference, error) {
	references = slices.Clone(references)
	var errs []error
	for _, owner := range owners {
		alive, err := s.isAlive(ctx, namespace, owner)
		if err != nil {
			errs = append(errs, fmt.Errorf("look up %s %s, which uses a revision: %w", owner.Kind, owner.Name, err))
		}
		if alive {
			references = append(references, owner.reference())
		}
	}
	return references, errors.Join(errs...)
}

// setOwners replaces the owners of a revision or an attached source. It replaces the whole list, and the condition of patch
// preserves owners that other clients add meanwhile. An annotation on a source notes that confrev added its owners.
func (s *Store) setOwners(ctx context.Context, obj *metav1.PartialObjectMetadata, references []metav1.OwnerReference) error {
	metadata := map[string]any{"ownerReferences": references}
	if optin.Attachable(obj) {
		metadata["annotations"] = map[string]any{keys.Attached: string(obj.UID)}
	}
	return s.patch(ctx, obj, metadata)
}

// Attached reports whether confrev made the users of a source own it. A copy of the source's manifest does not count: its
// annotation has another UID.
func Attached(source client.Object) bool {
	uid := source.GetAnnotations()[keys.Attached]
	return uid != "" && uid == string(source.GetUID())
}

// Detach reverts what Attach did to a source: it is no longer deleted with its users.
func (s *Store) Detach(ctx context.Context, source *metav1.PartialObjectMetadata, finalizers []string) error {
	others := slices.DeleteFunc(slices.Clone(source.OwnerReferences), func(o metav1.OwnerReference) bool {
		return s.kinds.IsUser(o) || isAnchor(o)
	})
	return s.patch(ctx, source, map[string]any{
		"ownerReferences": others, "finalizers": finalizers, "annotations": map[string]any{keys.Attached: nil},
	})
}

// ownForPinning adds to a patch the owners that a revision lacks, so that garbage collection keeps it for workloads that are about to pin it,
// whatever happens to its other users and to confrev. An owned object is deleted with its owners, so only what is proven to be a revision
// gets any. Of a workload that is only about to be created, the anchor takes the place: garbage collection would take an owner that does not
// exist yet for one that is gone.
//
// The anchor also becomes the owner of a revision that has none: that was made for a workload that is about to be created, so if these workloads
// became its only owners, it would be deleted with them.
func (s *Store) ownForPinning(ctx context.Context, meta *metav1.PartialObjectMetadata, owners []Owner, metadata map[string]any) error {
	if !s.lacksOwners(meta, owners) {
		return nil
	}
	if derived, err := s.Derived(ctx, meta); err != nil || !derived {
		return err
	}
	references, lacking := slices.Clone(meta.OwnerReferences), missingOwners(meta, owners)
	joining := existing(lacking)
	tooMany := len(references)+len(joining) > MaxOwners || len(joining) >= crowd
	if tooMany || len(joining) < len(lacking) || len(references) == 0 {
		anchor, err := s.anchorFor(ctx, Ref{kindOf(meta), meta.Namespace, meta.Name})
		if err != nil {
			return err
		}
		switch {
		case anchor != nil:
			joining = anchor
			if tooMany {
				references = slices.DeleteFunc(references, s.kinds.IsUser)
			}
		case len(references) == 0:
			// Garbage collection ignores it.
			joining = nil
		default:
			joining = joining[:max(0, min(len(joining), MaxOwners-len(references)))]
		}
	}
	if len(joining) > 0 {
		metadata["ownerReferences"] = append(references, referencesTo(joining)...)
	}
	return nil
}

// crowd is how many workloads that are about to pin a revision at the same time make the anchor own it at once. More are to be expected: a worker
// works on one workload at a time. With the anchor, the rest of them needs no write before its pin.
const crowd = 6

// lacksOwners reports whether garbage collection may delete a revision although some of the given workloads pin it, now or as soon as it has the
// owner for which it was made. The API server may ask several times about one workload that is being created; by its name, which one with generateName
// does not have yet, it is known again.
func (s *Store) lacksOwners(revision client.Object, owners []Owner) bool {
	if len(revision.GetOwnerReferences()) == 0 && len(owners) == 1 && owners[0].Name != "" {
		if first, ok := s.madeFor.Get(identityOf(revision)); ok && first == owners[0] {
			return false
		}
	}
	return !s.Anchored(revision) && len(missingOwners(revision, owners)) > 0
}

// identity is that of an object: another one may have had its name.
type identity struct {
	namespace, name string
	uid             types.UID
}

func identityOf(obj client.Object) identity {
	return identity{obj.GetNamespace(), obj.GetName(), obj.GetUID()}
}

// firstOwners returns the owners of a revision that is created for workloads that are about to pin it. If it is made for one that does not exist
// yet, it has none: nothing collects it until the controller has seen that one, and others that pin it meanwhile add the anchor.
func (s *Store) firstOwners(ctx context.Context, revision Ref, owners []Owner) ([]Owner, error) {
	all := len(existing(owners)) == len(owners)
	switch {
	case all && len(owners) <= MaxOwners:
		return owners, nil
	case len(owners) == 1:
		return nil, nil
	}
	return s.anchorFor(ctx, revision)
}

// anchorFor returns the anchor as an owner of a revision. It returns nothing if confrev may not use it, for example because confrev did not create
// what has its name: the pins are more important than owners.
func (s *Store) anchorFor(ctx context.Context, revision Ref) ([]Owner, error) {
	anchor, err := s.ensureAnchor(ctx, revision.Namespace)
	if IsChanged(err) {
		return nil, err
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "a revision may be deleted with its other users until the controller adds owners", "revision", revision.Name)
		return nil, nil
	}
	return []Owner{anchor}, nil
}

// existing returns those that are not only about to be created.
func existing(owners []Owner) []Owner {
	return slices.DeleteFunc(slices.Clone(owners), func(o Owner) bool { return o.UID == "" })
}

// missingOwners returns those that do not own a revision, each once.
func missingOwners(revision client.Object, owners []Owner) []Owner {
	have := map[types.UID]bool{}
	for _, reference := range revision.GetOwnerReferences() {
		have[reference.UID] = true
	}
	return slices.DeleteFunc(slices.Clone(owners), func(o Owner) bool {
		listed := have[o.UID]
		have[o.UID] = true
		return listed
	})
}

// isAlive reports whether the API server has this object, not a later one of the same name, and is not deleting it.
func (s *Store) isAlive(ctx context.Context, namespace string, owner Owner) (bool, error) {
	meta := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: owner.APIVersion, Kind: owner.Kind}}
	err := s.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: owner.Name}, meta)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && meta.UID == owner.UID && meta.DeletionTimestamp == nil, err
}

// reference returns an owner reference that is not a controller's and blocks nothing. Garbage collection needs no more, and a
// controller reference would make other controllers think that the revision is theirs to manage.
func (o Owner) reference() metav1.OwnerReference {
	no := false
	return metav1.OwnerReference{
		APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: o.UID, Controller: &no, BlockOwnerDeletion: &no,
	}
}

func referencesTo(owners []Owner) (references []metav1.OwnerReference) {
	for _, owner := range owners {
		references = append(references, owner.reference())
	}
	return references
}

// AddOwner reads a source or revision from the API server, adds an owner to it, and reports whether the owner was missing. It
// returns a Conflict if another client writes the object meanwhile.
func AddOwner(ctx context.Context, c client.Client, ref Ref, owner Owner) (added bool, err error) {
	meta := NewMetadata(ref.Kind)
	if err := c.Get(ctx, ref.key(), meta); err != nil {
		return false, err
	}
	if len(missingOwners(meta, []Owner{owner})) == 0 {
		return false, nil
	}
	before := meta.DeepCopy()
	meta.OwnerReferences = append(meta.OwnerReferences, owner.reference())
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return true, c.Patch(ctx, meta, patch, client.FieldOwner(keys.FieldManager))
}

// AnchorName is the name of the ConfigMap that owns the revisions of its namespace that have too many users to list (rule 14).
// Garbage collection does not delete a revision while the anchor owns it; confrev does, once nothing uses the revision.
const AnchorName = "confrev-anchor"

// Anchored reports whether the anchor owns a revision.
func (s *Store) Anchored(revision client.Object) bool {
	return slices.ContainsFunc(revision.GetOwnerReferences(), isAnchor)
}

func isAnchor(reference metav1.OwnerReference) bool {
	return reference.APIVersion == "v1" && reference.Kind == "ConfigMap" && reference.Name == AnchorName
}

// anchor makes the namespace's anchor own a revision instead of all its users. Owners that are not its users stay.
func (s *Store) anchor(ctx context.Context, revision *metav1.PartialObjectMetadata) error {
	anchor, err := s.ensureAnchor(ctx, revision.Namespace)
	if err != nil {
		return err
	}
	references := slices.DeleteFunc(slices.Clone(revision.OwnerReferences), s.kinds.IsUser)
	return s.setOwners(ctx, revision, append(references, anchor.reference()))
}

// Unanchor makes the users of a revision own it instead of the anchor, once they are few. The caller
// may not know a user that has pinned the revision recently, so Unanchor first calls complete, which searches everything and
// reports whether the API server has no other users. Unanchor reports whether the users own the revision now, or returns how long
// to wait before trying again.
func (s *Store) Unanchor(ctx context.Context, revision *metav1.PartialObjectMetadata, users []Owner,
	complete func(context.Context) (bool, error),
) (done bool, wait time.Duration, err error) {
	if len(users) > Few {
		return false, 0, nil
	}
	if wait := s.spared(revision, s.pinWindow); wait > 0 {
		return false, wait, nil
	}
	if mine, err := s.Derived(ctx, revision); err != nil || !mine {
		return false, 0, err
	}
	if all, err := complete(ctx); err != nil || !all {
		return false, 0, err
	}
	others := slices.DeleteFunc(slices.Clone(revision.OwnerReferences), func(o metav1.OwnerReference) bool {
		return s.kinds.IsUser(o) || isAnchor(o)
	})
	references, err := s.withLiving(ctx, revision.Namespace, others, users)
	if err != nil || !slices.ContainsFunc(references, s.kinds.IsWorkload) {
		return false, 0, err
	}
	return true, 0, s.setOwners(ctx, revision, references)
}

// ensureAnchor makes sure that a namespace has its anchor, and returns it as an owner.
func (s *Store) ensureAnchor(ctx context.Context, namespace string) (Owner, error) {
	uid, err := share(ctx, s, "anchor "+namespace, func(ctx context.Context) (types.UID, error) {
		anchor := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: AnchorName, Annotations: map[string]string{keys.Anchor: "true"},
		}}
		err := s.live.Get(ctx, client.ObjectKeyFromObject(anchor), anchor)
		if apierrors.IsNotFound(err) {
			err = s.writer.Create(ctx, anchor, client.FieldOwner(keys.FieldManager))
		}
		switch {
		case apierrors.IsAlreadyExists(err), err == nil && anchor.DeletionTimestamp != nil && !s.isStuck(anchor):
			return types.UID(""), NewChanged("%s", Ref{pin.ConfigMap, namespace, AnchorName})
		case err != nil:
			return types.UID(""), fmt.Errorf("create the anchor of namespace %s: %w", namespace, err)
		}
		return anchor.UID, checkAnchor(anchor)
	})
	return Owner{APIVersion: "v1", Kind: "ConfigMap", Name: AnchorName, UID: uid}, err
}

// checkAnchor returns an error if confrev did not create an anchor. Anyone who may create ConfigMaps could otherwise create one that garbage
// collection deletes with a ConfigMap of theirs, and with it all the revisions that it owns; or one that never goes, and that no other replaces.
func checkAnchor(anchor *corev1.ConfigMap) error {
	switch {
	case anchor.Annotations[keys.Anchor] != "true":
		return fmt.Errorf("%s/%s was not created by confrev: delete or rename it, since confrev needs the name", anchor.Namespace, AnchorName)
	case anchor.DeletionTimestamp != nil, len(anchor.OwnerReferences)+len(anchor.Finalizers)+len(anchor.Data)+len(anchor.BinaryData) > 0:
		return fmt.Errorf("%s/%s has owners, finalizers or data, which confrev gives to no anchor, so it owns no further revisions: remove those",
			anchor.Namespace, AnchorName)
	}
	return nil
}
