package revision

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"confrev.io/confrev/internal/content"
)

// TooFrequent is the reason of a TerminalError about a source that changes more often than it may (rule 11).
const TooFrequent = "ChangesTooOften"

// changes counts how often a source got a new current revision.
type changes struct {
	mu      sync.Mutex
	limiter *rate.Limiter
	// hash and number are those of the last one that was let through: many workloads ask for the same.
	hash   content.Hash
	number int64
}

// admit lets a source have a new current revision, or refuses it because the source has had too many within the hour: some
// controller keeps writing to it, and every workload that tracks it would roll for ever.
func (s *Store) admit(source Ref, hash content.Hash, number int64) error {
	fresh := &changes{limiter: rate.NewLimiter(rate.Limit(float64(s.perHour)/time.Hour.Seconds()), s.perHour)}
	c := fresh
	if kept, ok := s.changes.Get(source); ok {
		c = kept.(*changes)
	} else {
		s.changes.Add(source, fresh)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hash == hash && c.number == number {
		return nil
	}
	if !c.limiter.AllowN(s.now(), 1) {
		return &TerminalError{TooFrequent, fmt.Sprintf(
			"%s has changed more than %d times within an hour; pins stay as they are until it changes less often. "+
				"Opt it out with the annotation confrev.io/policy=ignore if a controller keeps writing it", source.Text(), s.perHour)}
	}
	c.hash, c.number = hash, number
	return nil
}
