package revision

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/plan"
)

// TooFrequent is the reason of a TerminalError about a source that changes more often than rule 11 allows.
const TooFrequent = "ChangesTooOften"

// changeRecord has the times at which a source got new content within the last hour.
type changeRecord struct {
	mu sync.Mutex
	at []time.Time
	// hash and number are those of the last change that was admitted: many workloads ask for the same one.
	hash   content.Hash
	number int64
}

// Admit counts a source's new content, or returns a TerminalError because the source has changed too often within the last hour:
// some controller keeps writing to it, and every workload that follows it would roll out forever. number distinguishes the times
// at which the same content came back; it is 0 if the caller does not count them.
func (s *Store) Admit(ctx context.Context, source Ref, hash content.Hash, number int64) error {
	return s.admit(ctx, recordOf[changeRecord](s, s.changes, source), source, hash, number)
}

// part is what some workloads restart on of an object: a hash of the fields, which may be many and long.
type part struct {
	object Ref
	fields [sha256.Size]byte
}

// AdmitPart does what Admit does for the fields of an object that a workload restarts on, which have the content hash. All of them count if none are
// given. One change to an object may be another content for each list of fields, so each has a record of its own: the version of the object would not
// do, since what no one follows, such as the status, changes too.
func (s *Store) AdmitPart(ctx context.Context, object Ref, fields []optin.Field, hash content.Hash) error {
	if len(fields) == 0 {
		return s.Admit(ctx, object, hash, 0)
	}
	followed := part{object, sha256.Sum256(fmt.Append(nil, fields))}
	return s.admit(ctx, recordOf[changeRecord](s, s.changes, followed), object, hash, 0)
}

func (s *Store) admit(ctx context.Context, c *changeRecord, source Ref, hash content.Hash, number int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hash == hash && (c.number == number || number == 0 || c.number == 0) {
		c.number = max(c.number, number)
		return nil
	}
	now := s.now()
	c.at = slices.DeleteFunc(c.at, func(at time.Time) bool { return now.Sub(at) >= time.Hour })
	if len(c.at) >= s.perHour {
		return notice.Terminal(TooFrequent, "%s has changed more than %d times within an hour; workloads stay as they are until it changes less often. "+
			"Opt it out with the annotation %s=ignore if a controller keeps writing it", source.Text(), s.perHour, keys.Policy)
	}
	if ctx.Value(uncounted{}) == nil {
		c.at, c.hash, c.number = append(c.at, now), hash, number
	}
	return nil
}

type uncounted struct{}

// Uncounted returns a context in which Admit may refuse a source's new content but does not count it, because the sender of the
// request is not trusted enough to use up the limit.
func Uncounted(ctx context.Context) context.Context { return context.WithValue(ctx, uncounted{}, true) }

// recordOf returns the record of a source, or of a part of an object, in one of the Store's caches, which is empty at first.
func recordOf[R any](s *Store, records *lru.Cache, of lru.Key) *R {
	s.recordsLock.Lock()
	defer s.recordsLock.Unlock()
	if kept, ok := records.Get(of); ok {
		return kept.(*R)
	}
	fresh := new(R)
	records.Add(of, fresh)
	return fresh
}

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
	if meta.Labels[keys.Source] == want || claimsToBeRevision(meta) {
		return nil
	}
	return s.once(ctx, "label "+version(meta), func(ctx context.Context) error {
		if s.labelFights(ctx, source, string(meta.UID)) {
			return nil
		}
		// The source may have got the marks of a revision meanwhile.
		err := s.patch(ctx, meta, map[string]any{"labels": map[string]string{keys.Source: want}})
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
