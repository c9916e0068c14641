package revision

import (
	"context"
	"encoding/json"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/plan"
)

// labelRecord counts how often the label of a source was removed after confrev had added it.
type labelRecord struct {
	mu      sync.Mutex
	reverts plan.Reverts
}

// Label adds the label of a source's revisions to the source too, so that one selector lists them all. The label is only a
// convenience: if something keeps removing it, such as a tool that applies the whole manifest, confrev gives up after a few times.
func (s *Store) Label(ctx context.Context, source Ref) error {
	meta := NewMetadata(source.Kind)
	if err := s.cached.Get(ctx, source.key(), meta); err != nil {
		return client.IgnoreNotFound(err)
	}
	want := content.SourceLabel(source.Name)
	if meta.Labels[keys.Source] == want || IsRevision(meta) {
		return nil
	}
	return s.once("label "+version(meta), func() error {
		if s.labelFights(ctx, source, string(meta.UID)) {
			return nil
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": meta.UID, "labels": map[string]string{keys.Source: want}}})
		if err != nil {
			return err
		}
		err = s.send(ctx, Metadata(source), patch)
		if tooBig(err) {
			// The object has no room for a label, so trying again would fail too.
			return nil
		}
		if err == nil {
			s.labelWritten(source, string(meta.UID))
		}
		return err
	})
}

// labelFights reports whether something keeps removing the label of a source.
func (s *Store) labelFights(ctx context.Context, source Ref, uid string) bool {
	l := recordOf[labelRecord](s, s.labels, source)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reverts.Backoff(uid, plan.MaxReverts, s.now()) == 0 {
		return false
	}
	log.FromContext(ctx).Info("something keeps removing the label of a source; not adding it for a while",
		"source", source.String(), "label", keys.Source, "for", plan.RetryReverted.String())
	return true
}

func (s *Store) labelWritten(source Ref, uid string) {
	l := recordOf[labelRecord](s, s.labels, source)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reverts.Wrote(uid, s.now())
}
