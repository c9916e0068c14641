package revision

import (
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

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

// reading is the data of a source, and when it was begun to be read.
type reading struct {
	data     client.Object
	snapshot Snapshot
	begun    time.Time
}

// readings is how many sources' data is kept between their observation and the creation of a revision, which would otherwise read it again.
const readings = 16

// keepReading keeps the data of a source while it is fresh.
func (s *Store) keepReading(source Ref, r *reading) {
	s.readings.Add(source, r)
	time.AfterFunc(fresh, func() {
		if kept, ok := s.readings.Get(source); ok && kept.(*reading) == r {
			s.readings.Remove(source)
		}
	})
}

// readRecently returns a copy of the data of a source as it was observed.
func (s *Store) readRecently(source Ref, version string) (client.Object, Snapshot, bool) {
	kept, ok := s.readings.Get(source)
	if !ok {
		return nil, Snapshot{}, false
	}
	r := kept.(*reading)
	if age := s.now().Sub(r.begun); r.snapshot.Version != version || age < 0 || age >= fresh {
		return nil, Snapshot{}, false
	}
	return r.data.DeepCopyObject().(client.Object), r.snapshot, true
}
