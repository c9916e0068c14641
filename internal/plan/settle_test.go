package plan_test

import (
	"testing"
	"time"

	"confrev.io/confrev/internal/plan"
)

// Rule 2: changes settle first, five times the settle time at most. Times are seconds since the start.
func TestSettling(t *testing.T) {
	type seen struct {
		at     float64
		wanted string
		// wait is how long to wait still, right after.
		wait float64
	}
	tests := map[string]struct {
		settle float64
		seen   []seen
	}{
		"one change waits for the settle time":          {2, []seen{{0, "b", 2}, {0.5, "b", 1.5}, {2, "b", 0}, {3, "b", 0}}},
		"a further change starts the wait again":        {2, []seen{{0, "b", 2}, {1.5, "c", 2}, {3, "c", 0.5}, {3.5, "c", 0}}},
		"going back to what was wanted before does too": {2, []seen{{0, "b", 2}, {1, "c", 2}, {2, "b", 2}, {4, "b", 0}}},
		"looking again does not":                        {2, []seen{{0, "b", 2}, {1, "b", 1}, {1.9, "b", 0.1}}},
		"five times the settle time is the most": {2, []seen{
			{0, "b", 2}, {1.5, "c", 2}, {3, "d", 2}, {4.5, "e", 2}, {6, "f", 2}, {7.5, "g", 2}, {9, "h", 1}, {9.5, "i", 0.5}, {10, "j", 0}, {11, "k", 0},
		}},
		"a settle time of 0 waits for nothing":   {0, []seen{{0, "b", 0}, {0, "c", 0}, {1, "d", 0}}},
		"looking late waits for nothing":         {2, []seen{{0, "b", 2}, {60, "b", 0}}},
		"a change that is seen late is over due": {2, []seen{{0, "b", 2}, {60, "c", 0}}},
		"pins that are not wanted any more":      {2, []seen{{0, "b", 2}, {1, "", 2}}},
	}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var s plan.Settling
			for _, step := range test.seen {
				now := start.Add(seconds(step.at))
				s = s.Observe(step.wanted, now)
				got := s.Remaining(seconds(test.settle), now)
				if diff := got - seconds(step.wait); diff.Abs() > time.Millisecond {
					t.Errorf("at %vs, wanting %q: wait %s, want %vs", step.at, step.wanted, got, step.wait)
				}
				if !s.Since().Equal(start) {
					t.Errorf("at %vs: since %s, want the first change", step.at, s.Since())
				}
			}
		})
	}
}

func TestSettlingAfresh(t *testing.T) {
	if !(plan.Settling{}).Since().IsZero() {
		t.Error("a Settling that follows nothing has a start")
	}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := plan.Settling{}.Observe("b", start)
	// A longer settle time that a user sets meanwhile counts at once.
	if got := s.Remaining(30*time.Second, start.Add(10*time.Second)); got != 20*time.Second {
		t.Errorf("wait %s, want 20s", got)
	}
}
