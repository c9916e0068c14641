package revision

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// Ensure makes sure that a revision with the observed content exists, and returns the pin to write and whether it created the
// revision. It is called right before a pin is written, and reads from the API server, not from the cache (rule 9). number is the
// lowest number that the revision must have (rule 5).
//
// owner is the workload that will pin the revision. It owns the revision before it pins it, and before any holder can. Otherwise the garbage
// collector could delete the revision together with the last of its other users, before confrev has seen the new holder, or while confrev is
// down (rule 12). A workload that is just being created cannot own the revision, because it has no UID yet.
//
// Workloads that are about to pin the same revision at the same time share what this takes, so that a change to thousands of them takes a few
// writes of owners.
func (s *Store) Ensure(ctx context.Context, source Ref, seen Observation, number int64, owner Owner) (p pin.Pin, created bool, err error) {
	round := fmt.Sprintf("%s %s %s %d", source, seen.Snapshot.Version, seen.Name, number)
	if p, ok := s.preparedRecently(round); ok {
		return p, false, nil
	}
	all, err := s.ensured.join(ctx, apart(ctx, round), owner, func(owners []Owner) (*prepared, error) {
		ctx, cancel := shared(ctx)
		defer cancel()
		begun := s.now()
		all, err := s.ensure(ctx, source, seen, number, owners)
		if err == nil && all.anchored {
			s.recent.Add(round, preparation{all.pin, begun})
		}
		return all, err
	})
	if err != nil {
		return pin.Pin{}, false, err
	}
	return all.pin, all.untold.CompareAndSwap(true, false), nil
}

func (s *Store) ensure(ctx context.Context, source Ref, seen Observation, number int64, owners []Owner) (*prepared, error) {
	// The first creation of a name should cost one request, so check first only if something is known to exist.
	if s.mayExist(seen, Ref{source.Kind, source.Namespace, seen.Name}) {
		if p, err := s.reuse(ctx, source, seen, seen.Name, number, owners); p != nil || err != nil {
			return p, err
		}
	}
	if err := s.settleKey(ctx, source, seen.Hash); err != nil {
		return nil, err
	}
	data, err := s.readUnchanged(ctx, source, seen)
	if err != nil {
		return nil, err
	}
	if err := s.Admit(ctx, source, seen.Hash, number); err != nil {
		return nil, err
	}
	first, err := s.firstOwners(ctx, Ref{source.Kind, source.Namespace, seen.Name}, owners)
	if err != nil {
		return nil, err
	}
	for name := range content.RevisionNames(source.Name, seen.Hash) {
		revision := object(data, seen.Snapshot, name, number, first...)
		err := s.create(ctx, revision)
		if err == nil {
			if len(owners) == 1 && len(first) == 0 {
				s.madeFor.Add(identityOf(revision), owners[0])
			}
			made := &prepared{pin: pin.Pin{Revision: name, Number: number}, anchored: slices.ContainsFunc(referencesTo(first), isAnchor)}
			made.untold.Store(true)
			return made, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
		if p, err := s.reuse(ctx, source, seen, name, number, owners); p != nil || err != nil {
			return p, err
		}
	}
	return nil, notice.Terminal("NoNameLeft", "cannot create a revision of %s: all names from %s on are taken by other objects; delete or rename those, "+
		"or remove their finalizers",
		source.Text(), content.RevisionName(source.Name, seen.Hash, 0))
}

// readUnchanged reads the source's data, which must still be what was observed, unless it was read for the observation just now.
func (s *Store) readUnchanged(ctx context.Context, source Ref, seen Observation) (client.Object, error) {
	if data, snapshot, ok := s.readRecently(source, seen.Snapshot.Version); ok && snapshot.Hash == seen.Hash {
		return data, checkCopyable(data)
	}
	data, snapshot, err := s.readOrEmpty(ctx, source)
	if err != nil {
		return nil, err
	}
	// An empty source and an absent one have the same content, but differ in whether they may be copied.
	if snapshot.Hash != seen.Hash || (data.GetUID() == "") != (seen.Object == nil) {
		return nil, NewChanged("%s", source)
	}
	return data, checkCopyable(data)
}

// checkCopyable returns a TerminalError if the data of an object is never copied (rule 10).
func checkCopyable(obj client.Object) error {
	if why := whyNotCopyable(obj); why != "" {
		return notice.Terminal(NeverCopied, "secret/%s is not followed: %s", obj.GetName(), why)
	}
	return nil
}

func whyNotCopyable(obj client.Object) string {
	if secret, ok := obj.(*corev1.Secret); ok {
		return optin.NeverCopiedType(secret.Type)
	}
	return ""
}

func (s *Store) create(ctx context.Context, revision client.Object) error {
	kind := ContentOf(revision).Kind
	source := SourceOf(kind, revision)
	err := s.writer.Create(ctx, revision, client.FieldOwner(keys.FieldManager))
	if _, ok := confinementRefusal(err); ok {
		return ExplainRefusal(err)
	}
	// With the reason Invalid, or that of a request that is too large, another one may just as well deny the copy.
	if !ByAnother(err) && (tooBig(err) || apierrors.IsInvalid(err)) {
		return notice.Terminal(TooBig, "cannot copy %s into a revision: %v; pins stay as they are", source, err)
	}
	if deniedForGood(err) {
		return notice.Terminal(RevisionRefused, "may not copy %s into a revision: %v; pins stay as they are", source, err)
	}
	if err != nil {
		return fmt.Errorf("create revision %s/%s: %w", revision.GetNamespace(), revision.GetName(), err)
	}
	return s.remember(ctx, Ref{kind, revision.GetNamespace(), revision.GetName()}, revision)
}

// remember notes what a revision contains, by the UID of the object that was created or read.
func (s *Store) remember(ctx context.Context, ref Ref, revision client.Object) error {
	key, err := s.keyFor(ctx, ref.Kind, ref.Namespace)
	if err != nil {
		return err
	}
	source := SourceOf(ref.Kind, revision)
	s.rememberProof(revision.GetUID(), proof{newSnapshot(key, revision, source), true, source})
	s.known.Add(ref, revision.GetUID())
	return nil
}

// reuse checks whether the object with the given name is a revision with the observed content, and prepares it for being pinned. It
// returns nil if there is no such object, if it is something else, or if it is being deleted and may stay for any time. Another object
// is never overwritten, because the kubelet would still have the old data in its cache (rule 8); the revision needs another name.
func (s *Store) reuse(ctx context.Context, source Ref, seen Observation, name string, least int64, owners []Owner) (*prepared, error) {
	ref := Ref{source.Kind, source.Namespace, name}
	meta := Metadata(ref)
	err := s.live.Get(ctx, ref.key(), meta)
	if apierrors.IsNotFound(err) {
		s.known.Remove(ref)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up revision %s: %w", ref, err)
	}
	if same, err := s.sameContent(ctx, ref, meta, seen); err != nil || !same || SourceOf(ref.Kind, meta).Name != source.Name {
		return nil, err
	}
	if s.isStuck(meta) {
		return nil, nil
	}
	if meta.DeletionTimestamp != nil {
		return nil, NewChanged("revision %s is being deleted and", ref)
	}
	if current, err := s.isCurrent(ctx, source, seen); err != nil || !current {
		return nil, cmp.Or(err, NewChanged("%s", source))
	}
	raised := numberFrom(meta, least)
	if raised > number(meta) {
		if err := s.Admit(ctx, source, seen.Hash, raised); err != nil {
			return nil, err
		}
	}
	anchored, err := s.prepare(ctx, meta, raised, seen, owners)
	if err != nil {
		return nil, err
	}
	return &prepared{pin: pin.Pin{Revision: name, Number: raised}, anchored: anchored}, nil
}

// mayExist reports whether a revision of this name has been seen, either in the cache or by this process.
func (s *Store) mayExist(seen Observation, ref Ref) bool {
	_, known := s.known.Get(ref)
	return known || seen.Exists(ref.Name)
}

// sameContent reports whether an object is a revision whose data is the observed content (rule 20).
func (s *Store) sameContent(ctx context.Context, ref Ref, meta *metav1.PartialObjectMetadata, seen Observation) (bool, error) {
	if !IsRevision(meta) {
		return false, nil
	}
	held, proven, err := s.prove(ctx, meta)
	if err != nil || !proven {
		return false, err
	}
	s.known.Add(ref, meta.UID)
	return held.Hash == seen.Hash, nil
}

// isCurrent reports whether a source is still as it was observed. A cache may lag behind, and raising a number for previous
// content would make the old content look newer than the new (rule 5).
func (s *Store) isCurrent(ctx context.Context, source Ref, seen Observation) (bool, error) {
	live, err := share(ctx, s, "look at "+source.String(), func(ctx context.Context) (string, error) {
		meta := NewMetadata(source.Kind)
		err := s.live.Get(ctx, source.key(), meta)
		return version(meta), client.IgnoreNotFound(err)
	})
	if err != nil {
		return false, fmt.Errorf("look at %s: %w", source, err)
	}
	return live == seen.Snapshot.Version, nil
}

// Refresh updates two annotations of the current revision: its number, which is raised to be the highest (rule 5), and the version
// of the source, so that the source need not be read again at start-up.
func (s *Store) Refresh(ctx context.Context, source Ref, seen Observation, current pin.Pin) error {
	if !seen.Exists(current.Revision) {
		return nil
	}
	ref := Ref{source.Kind, source.Namespace, current.Revision}
	meta := NewMetadata(ref.Kind)
	if err := s.cached.Get(ctx, ref.key(), meta); err != nil {
		return client.IgnoreNotFound(err)
	}
	if number(meta) >= current.Number && seen.noted[current.Revision] == seen.Snapshot.Version {
		return nil
	}
	if same, err := s.sameContent(ctx, ref, meta, seen); err != nil || !same {
		return ignoreChanged(err)
	}
	if current, err := s.isCurrent(ctx, source, seen); err != nil || !current {
		// The event of the change is on its way.
		return err
	}
	if number(meta) < current.Number {
		if err := s.Admit(ctx, source, seen.Hash, current.Number); err != nil {
			return nil //nolint:nilerr // The source changes too often. The workloads that would pin it report that.
		}
	}
	_, err := s.refresh(ctx, meta, current.Number, seen, nil)
	return err
}

// refresh writes the annotations of a revision that have changed, if any. If there are owners, they are about to pin the revision: refresh then
// renews it, so that the sweeper does not delete it, and makes sure that garbage collection does not either. It reports whether the anchor owns
// the revision.
func (s *Store) refresh(ctx context.Context, meta *metav1.PartialObjectMetadata, raised int64, seen Observation, owners []Owner) (anchored bool, err error) {
	annotations := map[string]any{}
	if number(meta) < raised {
		annotations[keys.Number] = strconv.FormatInt(raised, 10)
		if record, stays := seen.carried(meta, raised); stays {
			annotations[keys.Propagation] = record.String()
		}
	}
	if version := seen.Snapshot.Version; meta.Annotations[keys.SourceVersion] != version {
		annotations[keys.SourceVersion] = version
	}
	if len(owners) > 0 && !s.renewedJustNow(meta) {
		annotations[keys.Renewed] = s.stamp()
	}
	metadata := map[string]any{"annotations": annotations}
	if err := s.ownForPinning(ctx, meta, owners, metadata); err != nil {
		return false, err
	}
	added, _ := metadata["ownerReferences"].([]metav1.OwnerReference)
	anchored = s.Anchored(meta) || slices.ContainsFunc(added, isAnchor)
	if len(annotations) == 0 && len(metadata) == 1 {
		return anchored, nil
	}
	flight := refreshFlight(meta, annotations, added)
	return anchored, s.once(ctx, flight, func(ctx context.Context) error {
		return s.patch(ctx, meta, metadata)
	})
}

// refreshFlight names the write of annotations and owners to a revision as it was read: one that renews it or adds an owner is another than one
// that does not. Names are remembered, so they are short, however many owners there are.
func refreshFlight(meta *metav1.PartialObjectMetadata, annotations map[string]any, owners []metav1.OwnerReference) string {
	uids := make([]types.UID, 0, len(owners))
	for _, owner := range owners {
		uids = append(uids, owner.UID)
	}
	what := sha256.Sum256(fmt.Append(nil, annotations, uids))
	return fmt.Sprintf("refresh %s %s %x", meta.UID, meta.ResourceVersion, what)
}

// conflicts is how often in a row others may write a revision that is about to be pinned, or gets owners: other replicas for their workloads, and the
// controller, which gathers owners.
const conflicts = 5

// afterConflicts writes to a revision, and again after a conflict with another writer: at once, to the revision as the API server has it then, and not
// when the cache shows it. It gives up if that one is no longer usable.
func (s *Store) afterConflicts(ctx context.Context, meta *metav1.PartialObjectMetadata, usable func(now *metav1.PartialObjectMetadata) bool,
	write func(meta *metav1.PartialObjectMetadata) error,
) error {
	ref := Ref{kindOf(meta), meta.Namespace, meta.Name}
	err := write(meta)
	for range conflicts {
		if !IsChanged(err) {
			break
		}
		now := Metadata(ref)
		if err := s.live.Get(ctx, ref.key(), now); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("look up revision %s: %w", ref, err)
		}
		if now.UID == "" || now.DeletionTimestamp != nil || !usable(now) {
			return NewChanged("revision %s", ref)
		}
		err = write(now)
	}
	return err
}

// prepare does what refresh does for workloads that are about to pin a revision, and tries again after conflicts with other writers.
func (s *Store) prepare(ctx context.Context, meta *metav1.PartialObjectMetadata, raised int64, seen Observation, owners []Owner) (anchored bool, err error) {
	err = s.afterConflicts(ctx, meta, func(now *metav1.PartialObjectMetadata) bool {
		return s.Proven(now) && numberFrom(now, raised) == raised
	}, func(meta *metav1.PartialObjectMetadata) (err error) {
		anchored, err = s.refresh(ctx, meta, raised, seen, owners)
		return err
	})
	return anchored, err
}

// renewInterval is the least time between two renewals of a revision that many workloads are about to pin.
const renewInterval = time.Second

// renewedJustNow reports whether a revision was created or renewed within the last renewInterval. A time ahead of this clock was written by another one, at
// a time that is not known.
func (s *Store) renewedJustNow(meta client.Object) bool {
	at, err := time.Parse(time.RFC3339, meta.GetAnnotations()[keys.Renewed])
	if err != nil {
		at = meta.GetCreationTimestamp().Time
	}
	age := s.now().Sub(at)
	return age >= 0 && age < renewInterval
}

func (s *Store) stamp() string { return s.now().UTC().Format(time.RFC3339) }

// patch changes a revision's metadata on the condition that the revision is still as it was read. Otherwise, of two writers that
// change the number or the list of owners, one would undo what the other did.
func (s *Store) patch(ctx context.Context, meta *metav1.PartialObjectMetadata, metadata map[string]any) error {
	metadata["uid"], metadata["resourceVersion"] = meta.UID, meta.ResourceVersion
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	return s.send(ctx, Metadata(Ref{kindOf(meta), meta.Namespace, meta.Name}), patch)
}

func (s *Store) send(ctx context.Context, target *metav1.PartialObjectMetadata, patch []byte) error {
	err := s.writer.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(keys.FieldManager))
	name := fmt.Sprintf("%s %s/%s", target.Kind, target.Namespace, target.Name)
	switch {
	case err == nil:
		return nil
	case deniedForGood(err):
		return ExplainDenial(name, err)
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return NewChanged("%s", name)
	}
	return fmt.Errorf("patch %s: %w", name, err)
}

// SetFinalizers replaces an object's finalizers, on the condition that it is still as it was read.
func (s *Store) SetFinalizers(ctx context.Context, meta *metav1.PartialObjectMetadata, finalizers []string) error {
	return s.patch(ctx, meta, map[string]any{"finalizers": finalizers})
}

func kindOf(meta *metav1.PartialObjectMetadata) pin.Kind {
	if meta.Kind == "Secret" {
		return pin.Secret
	}
	return pin.ConfigMap
}
