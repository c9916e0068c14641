package fleet

import (
	"context"
	"fmt"
	"slices"

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
// vouched for everywhere, with the same content or for the same version. The name of a ConfigMap's revision is made of its content. For Secrets,
// only the version counts: who may write a Secret in one namespace must not find out what one in another namespace contains.
func (f *Fleet) behind(ctx context.Context, s *Survey) (bool, error) {
	after := s.Settings.Follows()
	if after == "" || s.Current.Revision == "" || s.Record.Staged {
		return false, nil
	}
	if passed, _, err := spread.ParsePassed(s.Meta.Annotations[keys.Passed]); err == nil && passed == s.Current.String() {
		return false, nil
	}
	first := revision.Ref{Kind: s.Source.Kind, Namespace: after, Name: s.Source.Name}
	same := func(name, version string) bool {
		wanted := optin.Version(s.Meta.Annotations)
		return first.Kind == pin.ConfigMap && name == s.Current.Revision || wanted != "" && version == wanted
	}
	if f.hasRecorded(first, same) {
		return false, nil
	}
	revisions := revision.NewMetadataList(first.Kind)
	err := f.elsewhere.List(ctx, revisions, client.InNamespace(after), client.MatchingLabels{keys.Source: content.SourceLabel(first.Name)})
	if f.brief && apierrors.IsForbidden(err) {
		// A user who may not look there still sees everything else. It waits until the revision here says that it need not.
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("list revisions of %s: %w", first, err)
	}
	for i := range revisions.Items {
		meta := &revisions.Items[i]
		if r, ok := complete(meta); ok && revision.IsRevision(meta) && revision.SourceOf(first.Kind, meta) == first.Source() && same(meta.Name, r.Version) {
			return false, nil
		}
	}
	return true, nil
}

// complete returns what a revision notes if that is about this object, and says that every workload has vouched.
func complete(meta *metav1.PartialObjectMetadata) (spread.Record, bool) {
	r, ok := spread.ParseRecord(meta.Annotations[keys.Propagation])
	return r, ok && r.Complete && r.Revision == string(meta.UID)
}

// hasRecorded reports whether this process has written, and the cache may not show yet, that content of a source was vouched for.
func (f *Fleet) hasRecorded(source revision.Ref, same func(name, version string) bool) bool {
	c := f.change(source)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recorded.Complete && same(c.recordedOn, c.recorded.Version)
}

// Against returns the members because of which a namespace does not vouch for a change that is complete there.
func (s *Survey) Against() []string {
	var names []string
	for _, m := range slices.Concat(s.Has(), s.Apart) {
		if m.RolledBack || m.Stage == spread.Unwell {
			names = append(names, m.Name)
		}
	}
	return names
}
