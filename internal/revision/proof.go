package revision

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
)

// What counts as a revision is decided here, in two steps (rule 20). Anyone who may create ConfigMaps can write every label and
// annotation of a revision, so neither proves what an object contains.
//
// The *form* is what metadata shows, and the guards' policy checks it too: an object that has it may be a revision. The *proof* is the
// data: an immutable object contains what its data hashes to, whatever its label or its name says. confrev pins, keeps and restores
// only what is proven. It deletes, and adds owners to, only what is *derived* as well: an object whose name follows from its
// content, which no other object has by chance.

// IsRevision reports whether an object has the form of a revision. Metadata alone does not show whether the data is immutable;
// only a proof does.
func IsRevision(obj client.Object) bool {
	source := obj.GetAnnotations()[keys.SourceName]
	if !content.IsHash(obj.GetLabels()[keys.Content]) || !pin.Names(source, obj.GetName()) {
		return false
	}
	if _, err := pin.ParseSource(string(pin.ConfigMap) + "/" + source); err != nil {
		return false
	}
	_, unknown := obj.(*metav1.PartialObjectMetadata)
	return unknown || isImmutable(obj)
}

// claimsToBeRevision reports whether an object bears the marks of a revision, whether or not they are forged. The policy that confines
// confrev's own account knows no more about an object, and lets confrev change no label of such ones.
func claimsToBeRevision(obj client.Object) bool {
	return obj.GetLabels()[keys.Content] != "" && obj.GetAnnotations()[keys.SourceName] != ""
}

// proof is what reading the data of an object has shown. It stays valid: the data of an immutable object never changes, and an
// object that is not immutable is read again when its resourceVersion changes.
type proof struct {
	Snapshot
	immutable bool
	// of is the source for whose name the hash was keyed.
	of pin.Source
}

// prove reads the data of an object that has the form of a revision, once, and returns what it contains. It returns false if the
// data can still change, so that nothing is proven.
func (s *Store) prove(ctx context.Context, meta *metav1.PartialObjectMetadata) (Snapshot, bool, error) {
	ref := Ref{kindOf(meta), meta.Namespace, meta.Name}
	key, err := s.keyFor(ctx, ref.Kind, ref.Namespace)
	if err != nil {
		return Snapshot{}, false, err
	}
	if kept, ok := s.proof(meta, key); ok {
		return kept.Snapshot, kept.immutable, nil
	}
	source := SourceOf(ref.Kind, meta)
	obj, snapshot, err := s.read(ctx, ref, source)
	if apierrors.IsNotFound(err) || obj != nil && obj.GetUID() != meta.UID {
		return Snapshot{}, false, NewChanged("revision %s", ref)
	}
	if terminal, ok := errors.AsType[*notice.TerminalError](err); ok && terminal.Reason == TooBig {
		// confrev makes no such revision, so it is forged. It is as good as one whose data can change.
		nothing := newSnapshot(key, empty(ref), source)
		nothing.Version = version(obj)
		s.rememberProof(obj.GetUID(), proof{nothing, false, source})
		return Snapshot{}, false, nil
	}
	if err != nil {
		return Snapshot{}, false, err
	}
	found := proof{snapshot, isImmutable(obj), source}
	s.rememberProof(obj.GetUID(), found)
	return found.Snapshot, found.immutable, nil
}

// rememberProof remembers a proof. Objects without a UID cannot be distinguished.
func (s *Store) rememberProof(uid types.UID, p proof) {
	if uid != "" {
		s.verified.Add(uid, p)
	}
}

// proof returns what is known about an object without reading it. key is the present key of its namespace.
func (s *Store) proof(meta *metav1.PartialObjectMetadata, key *content.Key) (proof, bool) {
	kept, ok := s.verified.Get(meta.UID)
	if !ok {
		return proof{}, false
	}
	found := kept.(proof)
	same := found.of == SourceOf(kindOf(meta), meta) && key.Made(found.Hash)
	return found, same && (found.immutable || found.Version == version(meta))
}

// Derived reports whether an object is a revision that confrev may delete and give owners to: proven, with a name that follows
// from its content.
func (s *Store) Derived(ctx context.Context, meta *metav1.PartialObjectMetadata) (bool, error) {
	if !IsRevision(meta) {
		return false, nil
	}
	held, proven, err := s.prove(ctx, meta)
	return proven && held.names(SourceOf(kindOf(meta), meta).Name, meta.Name), err
}

// names reports whether a revision of the source with this content may have this name. It may be a name from before hashes were
// keyed.
func (s Snapshot) names(source, name string) bool {
	return content.Names(source, s.Hash, name) || s.PlainHash != "" && content.Names(source, s.PlainHash, name)
}

// MadeOf returns the source of a revision that is proven, as Derived says. It returns none for anything else, also for nil.
func (s *Store) MadeOf(ctx context.Context, meta *metav1.PartialObjectMetadata) (pin.Source, error) {
	if meta == nil {
		return pin.Source{}, nil
	}
	derived, err := s.Derived(ctx, meta)
	if err != nil || !derived {
		return pin.Source{}, err
	}
	return SourceOf(kindOf(meta), meta), nil
}

// Proven reports whether an object is known to be a revision, without reading it.
func (s *Store) Proven(obj client.Object) bool {
	kept, ok := s.verified.Get(obj.GetUID())
	return ok && kept.(proof).immutable && IsRevision(obj)
}

// credible reports whether the label of an object may be believed before its data is read: either the object's name follows from
// the label, or the workload pins the object already. In the second case, confrev proved the object when it pinned it, and the
// guards have protected its metadata since. In both cases, confrev proves the object before it pins it again.
func credible(meta *metav1.PartialObjectMetadata, pinned string) bool {
	if meta.Name == pinned {
		return true
	}
	return content.Names(SourceOf(kindOf(meta), meta).Name, content.Hash(meta.Labels[keys.Content]), meta.Name)
}
