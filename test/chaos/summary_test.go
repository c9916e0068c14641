//go:build chaos

package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// summary counts what a run has shown.
type summary struct {
	histories, failed, pods, revisions, lost, rollouts, holds atomic.Int64

	mu     sync.Mutex
	steps  map[string]int
	faults map[string]int
}

var total = summary{steps: map[string]int{}, faults: map[string]int{}}

// took counts a step.
func (s *summary) took(verb string, fault bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fault {
		s.faults[verb]++
	} else {
		s.steps[verb]++
	}
}

func counts(of map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(all, ", ")
}

// progress writes a line at each tick: a run takes hours. The function that it returns ends that.
func (s *summary) progress(to io.Writer, ticks <-chan time.Time) (end func()) {
	began, over, done := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ticks:
				_, _ = fmt.Fprintf(to, "chaos: %d histories have begun (the known ones, and %d), %d failed, after %s\n",
					s.histories.Load(), histories, s.failed.Load(), time.Since(began).Round(time.Second))
			case <-over:
				return
			}
		}
	}()
	return func() { close(over); <-done }
}

// report writes the counts for a person, and then as JSON.
func (s *summary) report(to io.Writer, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line, err := json.Marshal(map[string]any{
		"seed": seed, "histories": s.histories.Load(), "failed": s.failed.Load(), "parallel": parallel, "steps": s.steps, "faults": s.faults,
		"pods": s.pods.Load(), "revisionsGone": s.revisions.Load(), "revisionsLost": s.lost.Load(), "rollouts": s.rollouts.Load(), "holds": s.holds.Load(), "seconds": int(took.Seconds()),
	})
	if err != nil {
		line = []byte(err.Error())
	}
	_, _ = fmt.Fprintf(to, "chaos: %d histories (%d failed) in %s, %d at a time, seed %d\n  steps: %s\n  process faults: %s\n"+
		"  checked: %d pods, %d revisions that went (%d while an orphan used them that confrev had not seen), %d rollouts by confrev, %d holds\n%s\n",
		s.histories.Load(), s.failed.Load(), took.Round(time.Second), parallel, seed, counts(s.steps), counts(s.faults),
		s.pods.Load(), s.revisions.Load(), s.lost.Load(), s.rollouts.Load(), s.holds.Load(), line)
}
