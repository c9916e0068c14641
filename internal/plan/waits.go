package plan

import "time"

// settleCap limits how long a workload waits whose sources never become quiet, in multiples of the settle time.
const settleCap = 5

// Settling follows a workload whose sources are changing, until they are quiet (rule 2). The zero value follows nothing yet. It
// contains no clock: the caller passes the time.
type Settling struct {
	wanted         string
	since, changed time.Time
}

// Observe notes what the workload would be pinned to now. Only a change to that restarts the wait.
func (s Settling) Observe(wanted string, now time.Time) Settling {
	switch {
	case s.since.IsZero():
		return Settling{wanted: wanted, since: now, changed: now}
	case s.wanted != wanted:
		return Settling{wanted: wanted, since: s.since, changed: now}
	}
	return s
}

// Remaining returns how much longer to wait: until the sources have been quiet for the settle time, but at most five times as
// long in total.
func (s Settling) Remaining(settle time.Duration, now time.Time) time.Duration {
	quiet, latest := s.changed.Add(settle), s.since.Add(settleCap*settle)
	if latest.Before(quiet) {
		quiet = latest
	}
	return max(0, quiet.Sub(now))
}

// Since returns when the change was first seen.
func (s Settling) Since() time.Time { return s.since }

const (
	// MaxReverts is how often something must revert the same text soon after it was written for confrev to give up for a while.
	MaxReverts = 3
	// MaxReapplied is the same for names in references. With injection into the template, they are reverted each time that a user
	// applies the manifest.
	MaxReapplied = 10
	// RevertWindow is how soon after a write its reversal counts as the work of a controller, not of a person.
	RevertWindow = time.Minute
	// RetryReverted is when to try again, in case the other controller has been reconfigured.
	RetryReverted = time.Hour
)

// Reverts counts how often something reverted what was written. The zero value has counted nothing.
type Reverts struct {
	text string
	at   time.Time
	// rounds is how often the text was written in a row.
	rounds int
	// Lost is true if the API server itself does not keep the text.
	Lost bool
}

// Pruned notes that the API server did not keep what was written. Writing it again does not help.
func (r *Reverts) Pruned(text string, now time.Time) {
	*r = Reverts{text: text, at: now, rounds: MaxReapplied, Lost: true}
}

// Wrote notes a write. Writing the same text again, soon after, means that something reverted it.
func (r *Reverts) Wrote(text string, now time.Time) {
	switch {
	case text != r.text:
		r.rounds = 1
	case now.Sub(r.at) < RevertWindow:
		r.rounds++
	case r.rounds < MaxReverts:
		// A late reversal was probably made by a person. Only after repeated reversals does any further one count.
		r.rounds = 1
	}
	r.text, r.at, r.Lost = text, now, false
}

// Backoff returns how long to leave a text alone that was reverted the given number of times; 0 if it may be written.
func (r *Reverts) Backoff(text string, times int, now time.Time) time.Duration {
	if text != r.text || r.rounds < times {
		return 0
	}
	return max(0, r.at.Add(RetryReverted).Sub(now))
}
