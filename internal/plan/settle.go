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
