//go:build chaos

package chaos

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// absences are the times in which no confrev led, or may have led. The last one has no end while it lasts.
type absences struct {
	mu  sync.Mutex
	all []absence
}

type absence struct{ from, to time.Time }

// begin notes that confrev leads no longer. It returns what to call when it leads again.
func (a *absences) begin() (end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := len(a.all)
	a.all = append(a.all, absence{from: time.Now()})
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.all[i].to = time.Now()
	}
}

// catchUp is how long confrev may take for what happened in its absence, on a machine on which many histories happen.
const catchUp = 10 * time.Second

// cover reports whether one absence, and the time to catch up, covers both the creation of an object, of which only the second is known, and
// what happened to it later.
func (a *absences) cover(created, later time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.all, func(b absence) bool {
		return !created.Before(b.from.Truncate(time.Second)) && (b.to.IsZero() || later.Before(b.to.Add(catchUp)))
	})
}

// Only what was created in an absence, and went in it or soon afterwards, is excused.
func TestAbsencesCoverLittle(t *testing.T) {
	from := time.Unix(1_800_000_000, 0).Add(700 * time.Millisecond)
	at := func(seconds float64) time.Time { return from.Add(time.Duration(seconds * float64(time.Second))) }
	// An API server gives the second of a creation.
	created := func(seconds float64) time.Time { return at(seconds).Truncate(time.Second) }
	past, present := &absences{all: []absence{{from, at(20)}}}, &absences{all: []absence{{from: from}}}
	for name, test := range map[string]struct {
		absences       *absences
		created, later time.Time
		want           bool
	}{
		"created before":         {past, created(-1), at(1), false},
		"both within":            {past, created(0.1), at(1), true},
		"went soon afterwards":   {past, created(1), at(25), true},
		"went later":             {past, created(1), at(31), false},
		"both soon afterwards":   {past, created(22), at(25), true},
		"both later":             {past, created(40), at(41), false},
		"it is still away":       {present, created(100), at(200), true},
		"created before it went": {present, created(-1), at(200), false},
		"it never was away":      {&absences{}, created(1), at(2), false},
	} {
		if got := test.absences.cover(test.created, test.later); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
