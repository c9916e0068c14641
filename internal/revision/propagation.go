package revision

import (
	"cmp"
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/spread"
)

// SetPropagation notes on a revision how far it has spread, on the condition that the revision is still as the cache shows it. If the note is
// to outlast the users of the revision, the same write makes the anchor own it: what was decided must not be lost because the workloads are
// deleted for which it was decided. The caller acts on what was noted, so one that is gone is an error that satisfies IsChanged.
func (s *Store) SetPropagation(ctx context.Context, ref Ref, record spread.Record, outlasts bool) error {
	meta := NewMetadata(ref.Kind)
	err := s.cached.Get(ctx, ref.key(), meta)
	if apierrors.IsNotFound(err) {
		return NewChanged("revision %s", ref)
	}
	if err != nil {
		return err
	}
	if number(meta) > record.Number {
		// The number was raised since the change was looked at. The record would be void, in the place of one that was carried over.
		return NewChanged("revision %s", ref)
	}
	metadata := map[string]any{"annotations": map[string]any{keys.Propagation: record.String()}}
	if outlasts {
		if err := s.ownByAnchor(ctx, meta, metadata); err != nil {
			return err
		}
	}
	return s.patch(ctx, meta, metadata)
}

// ownByAnchor adds to a patch the namespace's anchor as the owner of a revision, in the place of all users.
func (s *Store) ownByAnchor(ctx context.Context, meta *metav1.PartialObjectMetadata, metadata map[string]any) error {
	derived, err := s.Derived(ctx, meta)
	if err == nil && (!derived || s.Anchored(meta)) {
		// An owned object is deleted with its owners, so only what is proven to be a revision gets any.
		return nil
	}
	var anchor Owner
	if err == nil {
		anchor, err = s.ensureAnchor(ctx, meta.Namespace)
	}
	switch {
	case IsChanged(err):
		return err
	case err != nil:
		// For example, another object has the anchor's name. The note is more important than that it lasts.
		log.FromContext(ctx).Error(err, "what was decided about a change is lost if all users of its revision are deleted", "revision", meta.Name)
		return nil
	}
	references := slices.DeleteFunc(slices.Clone(meta.OwnerReferences), s.kinds.IsUser)
	metadata["ownerReferences"] = append(references, anchor.reference())
	return nil
}

// SourceWith returns the source of a revision, as the API server has it, if the source has the content of the revision now; nil if it does not
// exist or has other content.
func (s *Store) SourceWith(ctx context.Context, revision *metav1.PartialObjectMetadata) (client.Object, error) {
	source := SourceOf(kindOf(revision), revision)
	data, snapshot, err := s.read(ctx, Ref{source.Kind, revision.Namespace, source.Name}, source)
	if err != nil || !snapshot.names(source.Name, revision.Name) {
		return nil, client.IgnoreNotFound(err)
	}
	return data, nil
}

// keepRecord notes what a revision notes of its spread, if that is about this object.
func (o *Observation) keepRecord(meta *metav1.PartialObjectMetadata) {
	if r, ok := recordOn(meta); ok {
		o.records[meta.Name] = r
	}
}

func recordOn(meta *metav1.PartialObjectMetadata) (spread.Record, bool) {
	text := meta.Annotations[keys.Propagation]
	if text == "" {
		return spread.Record{}, false
	}
	if r, ok := spread.ParseRecord(text); ok && r.Revision == string(meta.UID) {
		return r, true
	}
	return spread.Record{}, false
}

// Since returns the number with which the present content became current. The number of its revision may have been raised while it stayed.
func (o Observation) Since() int64 { return cmp.Or(o.current().First(), o.FollowingNumber()) }

// Stops returns how often the change to the present content was stopped because of failures.
func (o Observation) Stops() int { return o.current().Stops }

// current returns what is noted of how far the present content has spread; zero if nothing is.
func (o Observation) current() spread.Record {
	if r := o.records[o.Name]; r.Number == o.FollowingNumber() {
		return r
	}
	return spread.Record{}
}

// carried returns what a revision is to note of its spread when its number is raised, and reports whether its content has stayed. It has unless
// another revision had a higher number: a raise beyond what the source's own revisions ask for comes from what workloads note, which anyone can
// write who may edit one of them, and must not end a stop (rule 40). What was recorded before other content was there stays void.
func (o Observation) carried(meta *metav1.PartialObjectMetadata, raised int64) (spread.Record, bool) {
	others := plan.Source{Name: meta.Name, Revisions: []plan.Revision{{Name: meta.Name, Number: number(meta)}}}
	for _, r := range o.Revisions {
		if r.Name != meta.Name {
			others.Revisions = append(others.Revisions, r)
		}
	}
	following := others.FollowingNumber()
	if raised <= following {
		return spread.Record{}, false
	}
	r, ok := recordOn(meta)
	if !ok || r.Number != following {
		// Nothing counts of the record of an earlier change, except that other namespaces may follow it, for which the number does not matter.
		r = spread.Record{Revision: string(meta.UID), Number: following, Complete: r.Complete, Version: r.Version}
	}
	r.Since, r.Number = r.First(), raised
	return r, true
}
