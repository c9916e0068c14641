package plan

import "time"

const (
	// MaxReverts is how often something must undo the same right away for confrev to leave it alone.
	MaxReverts = 3
	// MaxReapplied is the same for the names of references alone: with injection into the template, each time that a user
	// applies the manifest puts them back.
	MaxReapplied = 10
	// RevertWindow is how soon after a write its undoing counts as the work of a controller, not of a person.
	RevertWindow = time.Minute
	// RetryReverted is when to try once more, in case the other controller has learned better.
	RetryReverted = time.Hour
)

// Reverts counts how often what was written was undone, by something that will not have it. The zero value has counted nothing.
type Reverts struct {
	text string
	at   time.Time
	// rounds is how often the text was written in a row.
	rounds int
	// Lost is true when the API server itself does not keep the text.
	Lost bool
}

// Pruned notes that the API server did not keep what was written. Writing it again does not help.
func (r *Reverts) Pruned(text string, now time.Time) {
	*r = Reverts{text: text, at: now, rounds: MaxReapplied, Lost: true}
}

// Wrote notes a write. The same again, soon after, means that something undid the write before.
func (r *Reverts) Wrote(text string, now time.Time) {
	switch {
	case text != r.text:
		r.rounds = 1
	case now.Sub(r.at) < RevertWindow:
		r.rounds++
	case r.rounds < MaxReverts:
		// Whatever undid it took its time. Only a fight goes on after any time.
		r.rounds = 1
	}
	r.text, r.at, r.Lost = text, now, false
}

// Backoff returns how long to leave alone what something undid so many times.
func (r *Reverts) Backoff(text string, times int, now time.Time) time.Duration {
	if text != r.text || r.rounds < times {
		return 0
	}
	return max(0, r.at.Add(RetryReverted).Sub(now))
}
