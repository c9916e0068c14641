package plan

import "time"

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
