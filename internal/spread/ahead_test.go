package spread_test

import (
	"testing"
	"time"

	"confrev.io/confrev/internal/spread"
)

// Rule 44: no one goes before the namespace that comes first has vouched, disturbed or not; a stop is said first.
func TestNoOneGoesBeforeTheStageBefore(t *testing.T) {
	s := spread.Look(members("a:Waiting b:Waiting! c:Rolling d:Waiting@1"), settings(t, "", "1"), 0, spread.Place{})
	s.Behind = true
	for _, name := range []string{"a", "b", "d"} {
		if got, ok := s.Of(name); !ok || got != spread.EarlierStage {
			t.Errorf("%s: %q %v", name, got, ok)
		}
	}
	if s.Stopped = true; going(s) != "" {
		t.Errorf("%s go", going(s))
	}
	if got, _ := s.Of("a"); got != spread.Stopped {
		t.Errorf("stopped: %q", got)
	}
}

// Rule 44: a namespace vouches for a change if all have vouched that can, and no one has had trouble with it.
func TestANamespaceVouches(t *testing.T) {
	for text, want := range map[string]bool{
		"a:Vouched": true, "a:Vouched b:Idle": true, "a:Vouched b:Apart": true, "": false, "a:Idle": false, "a:Apart": false, "a:Vouched b:Rolling": false,
		"a:Vouched b:Unwell": false, "a:Vouched b:Waiting": false, "a:Vouched b:Parked": false, "a:Vouched b:Failed": false, "a:Vouched b:Later@3": false,
	} {
		if got := spread.Look(members(text), settings(t, "1", ""), 0, spread.Place{}).Vouches(); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	back := members("a:Vouched b:Apart")
	back[1].RolledBack = true
	if spread.Look(back, settings(t, "", ""), 0, spread.Place{}).Vouches() {
		t.Error("one was rolled back, and it vouches")
	}
	if s := spread.Look(members("a:Vouched"), settings(t, "", ""), 0, spread.Place{}); !s.Vouches() {
		t.Error("it does not vouch")
	} else if s.Stopped = true; s.Vouches() {
		t.Error("it is stopped, and vouches")
	}
}

func TestHowLongAChangeTakesAtLeast(t *testing.T) {
	for name, test := range map[string]struct {
		members, steps, rolling string
		want                    time.Duration
	}{
		"no one":               {"", "1", "", 0},
		"one wave":             {"a:Waiting b:Waiting", "", "", time.Minute},
		"two waves":            {"a:Waiting b:Waiting", "1", "", 2 * time.Minute},
		"two at a time":        {"a:Waiting b:Waiting c:Waiting", "", "2", 2 * time.Minute},
		"waves and a budget":   {"a:Waiting b:Waiting c:Waiting d:Waiting", "1", "1", 4 * time.Minute},
		"some have it":         {"a:Vouched b:Baking c:Waiting", "1", "", time.Minute},
		"all have it":          {"a:Vouched b:Vouched", "1", "", 0},
		"one is paused":        {"a:Later b:Apart", "", "", time.Minute},
		"more places than all": {"a:Waiting", "", "5", time.Minute},
	} {
		if got := spread.Look(members(test.members), settings(t, test.steps, test.rolling), 0, spread.Place{}).AtLeast(time.Minute); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
