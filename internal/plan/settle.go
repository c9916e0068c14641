package plan

import "time"

// settleCap is how many times the settle time a workload waits at the most, when its sources never become quiet.
const settleCap = 5

// Settling follows a workload whose sources are changing, until they are quiet (rule 2). The zero value follows nothing
// yet. It holds no clock: the caller says what time it is.
type Settling struct {
	wanted         string
	since, changed time.Time
}

// Observe notes what the workload would be pinned to now. A change of it, and nothing else, restarts the wait.
func (s Settling) Observe(wanted string, now time.Time) Settling {
	switch {
	case s.since.IsZero():
		return Settling{wanted: wanted, since: now, changed: now}
	case s.wanted != wanted:
		return Settling{wanted: wanted, since: s.since, changed: now}
	}
	return s
}

// Remaining gives how long to wait still: until the sources have been quiet for the settle time, at the most five times
// as long in all.
func (s Settling) Remaining(settle time.Duration, now time.Time) time.Duration {
	quiet, latest := s.changed.Add(settle), s.since.Add(settleCap*settle)
	if latest.Before(quiet) {
		quiet = latest
	}
	return max(0, quiet.Sub(now))
}

// Since is when the change was first seen.
func (s Settling) Since() time.Time { return s.since }
