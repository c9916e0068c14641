package waiting

import (
	"testing"
	"time"
)

// counted counts how often a schedule is asked for its next start.
type counted struct {
	window
	n *int
}

func (c counted) Next(now time.Time) time.Time {
	*c.n++
	return c.starts.Next(now)
}

// Rule 34: a search for a time at which all windows are open asks those that open rarely, or never, once. Each answer takes a scan of years.
func TestRareWindowsAreAskedOnce(t *testing.T) {
	gate := func(text string) (g Gate, rare *int) {
		g, err := ParseWindow(text, "test")
		if err != nil {
			t.Fatal(err)
		}
		rare = new(int)
		for i := range g.windows[1:] {
			g.windows[i+1].starts = counted{g.windows[i+1], rare}
		}
		return g, rare
	}
	// The first windows of the two never meet.
	even, ofEven := gate("*/2 * * * * 1m; 0 0 31 2,4,6,9,11 * 1m; 0 0 29 2 * 1m")
	odd, ofOdd := gate("1-59/2 * * * * 1m; 0 0 30 2 * 1m; 0 0 29 2 * 1m")
	now := time.Date(2026, 11, 28, 12, 0, 30, 0, time.UTC)
	if wait := ForTime([]Gate{even, odd}, false, now); wait.Reason != Window || !wait.Until.IsZero() {
		t.Errorf("it waits %s", wait)
	}
	for _, n := range []int{*ofEven, *ofOdd} {
		// Each opening is found by asking twice: whether it is open, and when it is next.
		if n != 2*2 {
			t.Errorf("rare windows were asked %d times", n)
		}
	}
}
