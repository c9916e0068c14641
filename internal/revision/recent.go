package revision

import (
	"sync/atomic"
	"time"

	"confrev.io/confrev/internal/pin"
)

// prepared is a revision that several workloads may pin.
type prepared struct {
	pin pin.Pin
	// untold is true until one of them has learned that it was created.
	untold atomic.Bool
	// anchored is true if the anchor owns the revision, so that garbage collection keeps it for further workloads too.
	anchored bool
}

// preparation is that of a pin, and when it began.
type preparation struct {
	pin   pin.Pin
	begun time.Time
}

// fresh is how long a preparation counts for further workloads. When thousands pin the same revision, each would otherwise wait for two reads
// of what another has just read, with one round of them at a time. In so short a time, the sweeper and Unanchor spare the revision, because
// it was renewed within renewInterval, and a change to the source can come after a pin as well.
const fresh = 250 * time.Millisecond

func (s *Store) preparedRecently(round string) (pin.Pin, bool) {
	kept, ok := s.recent.Get(round)
	if !ok {
		return pin.Pin{}, false
	}
	recent := kept.(preparation)
	age := s.now().Sub(recent.begun)
	return recent.pin, age >= 0 && age < fresh
}
