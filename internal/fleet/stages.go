package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/spread"
)

// behind reports whether a change has to wait for the namespace that comes before its own: no revision of the source there notes that it was
// vouched for everywhere, with the same content or for the same version.
func (f *Fleet) behind(ctx context.Context, s *Survey) (bool, error) {
	after := s.Settings.Follows()
	if after == "" || s.Current.Revision == "" || s.Record.Staged {
		return false, nil
	}
	if passed, _, err := spread.ParsePassed(s.Meta.Annotations[keys.Passed]); err == nil && passed == s.Current.String() {
		return false, nil
	}
	first := revision.Ref{Kind: s.Source.Kind, Namespace: after, Name: s.Source.Name}
	if f.hasRecorded(first, s.isSame) {
		return false, nil
	}
	all, err := f.vouched(ctx, first)
	if f.brief && apierrors.IsForbidden(err) {
		// A user who may not look there still sees everything else. It waits until the revision here says that it need not.
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(all, func(v vouched) bool { return s.isSame(v.name, v.Version) }), nil
}

// isSame reports whether a revision of another namespace, with this name and version of the source, is of the same change. The name of a
// ConfigMap's revision is made of its content. For Secrets, only the version counts: who may write a Secret in one namespace must not find out
// what one in another namespace contains.
func (s *Survey) isSame(name, version string) bool {
	wanted := optin.Version(s.Meta.Annotations)
	return s.isContent(name) || wanted != "" && version == wanted
}

// isContent reports whether a revision of another namespace with this name has the content of the change.
func (s *Survey) isContent(name string) bool {
	return s.Source.Kind == pin.ConfigMap && name == s.Current.Revision
}

// vouched is a revision that notes that every workload of its namespace has vouched for it.
type vouched struct {
	spread.Record
	name string
}

// vouched returns the revisions of a source that every workload of its namespace has vouched for.
func (f *Fleet) vouched(ctx context.Context, source revision.Ref) ([]vouched, error) {
	revisions := revision.NewMetadataList(source.Kind)
	err := f.elsewhere.List(ctx, revisions, client.InNamespace(source.Namespace), client.MatchingLabels{keys.Source: content.SourceLabel(source.Name)})
	if err != nil {
		return nil, fmt.Errorf("list revisions of %s: %w", source, err)
	}
	var all []vouched
	for i := range revisions.Items {
		meta := &revisions.Items[i]
		if r, ok := complete(meta); ok && revision.IsRevision(meta) && revision.SourceOf(source.Kind, meta) == source.Source() {
			all = append(all, vouched{r, meta.Name})
		}
	}
	return all, nil
}

// Awaited reports whether a change that every workload of a namespace has vouched for has not begun yet in a namespace that comes later, and
// whether it is this revision that will let it begin there.
func (f *Fleet) Awaited(ctx context.Context, ref revision.Ref, meta *metav1.PartialObjectMetadata) (bool, error) {
	if _, ok := complete(meta); !ok {
		return false, nil
	}
	source := revision.Ref{Kind: ref.Kind, Namespace: ref.Namespace, Name: revision.SourceOf(ref.Kind, meta).Name}
	for _, follower := range f.Followers(source) {
		asked, _, err := f.Spreading(ctx, follower)
		if err != nil {
			return false, err
		}
		s, err := f.recent(ctx, f.change(follower), asked)
		if err != nil {
			return false, err
		}
		if s.Settings.Follows() != source.Namespace || s.Current.Revision == "" || s.Record.Staged {
			continue
		}
		all, err := f.vouched(ctx, source)
		if err != nil || s.begins(all) == meta.Name {
			return true, err
		}
	}
	return false, nil
}

// begins returns the name of the revision that lets a change begin, of those that were vouched for in the namespace before: the one with the
// same content, or else the newest of the same version. A version that is never changed must not keep them all.
func (s *Survey) begins(all []vouched) string {
	newest := vouched{}
	for _, v := range all {
		if s.isContent(v.name) {
			return v.name
		}
		if s.isSame(v.name, v.Version) && v.Number > newest.Number {
			newest = v
		}
	}
	return newest.name
}

// complete returns what a revision notes if that is about this object, and says that every workload has vouched.
func complete(meta *metav1.PartialObjectMetadata) (spread.Record, bool) {
	r, ok := spread.ParseRecord(meta.Annotations[keys.Propagation])
	return r, ok && r.Complete && r.Revision == string(meta.UID)
}

// shownWithin is how long the cache may not show yet what was written.
const shownWithin = 30 * time.Second

// hasRecorded reports whether this process has written, and the cache may not show yet, that content of a source was vouched for. It counts no
// longer: the revision may be gone by then, with its namespace, and what is there now has vouched for nothing.
func (f *Fleet) hasRecorded(source revision.Ref, same func(name, version string) bool) bool {
	c := f.change(source)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recorded.Complete && f.now().Sub(c.recordedAt) < shownWithin && same(c.recordedOn, c.recorded.Version)
}

// Against returns the members because of which a namespace does not vouch for a change that is complete there.
func (s *Survey) Against() []string {
	var names []string
	for _, m := range slices.Concat(s.Has(), s.Apart) {
		if m.RolledBack || m.Lacks || m.Stage == spread.Unwell {
			names = append(names, m.Name)
		}
	}
	return names
}
