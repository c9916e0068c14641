package spread_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"confrev.io/confrev/internal/spread"
)

// world is a change that spreads, and what some process knew of it at earlier times.
type world struct {
	members  []spread.Member
	settings spread.Settings
	open     int
	// past has views of earlier times, with the record of their time.
	past []spread.Spread
}

func (w *world) look() spread.Spread {
	// The cache copies what it shows.
	return spread.Look(append([]spread.Member{}, w.members...), w.settings, w.open, spread.Place{})
}

func drawWorld(t *rapid.T) *world {
	w := &world{settings: spread.Settings{By: "test"}}
	for i := range rapid.IntRange(1, 12).Draw(t, "members") {
		m := spread.Member{
			Name: fmt.Sprintf("deployment/%02d", i), Wave: rapid.IntRange(0, 2).Draw(t, "wave"), Stage: spread.Waiting,
			Disturbed: rapid.IntRange(0, 5).Draw(t, "disturbed") == 0,
		}
		if rapid.IntRange(0, 7).Draw(t, "apart") == 0 {
			m.Stage = rapid.SampledFrom([]spread.Stage{spread.Apart, spread.Idle, spread.Later}).Draw(t, "stage")
			m.Disturbed = false
		}
		w.members = append(w.members, m)
	}
	for range rapid.IntRange(0, 3).Draw(t, "steps") {
		w.settings.Steps = append(w.settings.Steps, spread.Amount{Number: rapid.IntRange(1, 6).Draw(t, "step")})
	}
	if k := rapid.IntRange(0, 4).Draw(t, "budget"); k > 0 {
		w.settings.MaxRolling = []spread.Amount{{Number: k}}
	}
	return w
}

func (w *world) member(name string) *spread.Member {
	for i := range w.members {
		if w.members[i].Name == name {
			return &w.members[i]
		}
	}
	return nil
}

// goes lets members go as a view says, whether or not it is out of date.
func (w *world) goes(t *rapid.T, view spread.Spread) {
	going := view.Next()
	if len(going) == 0 {
		return
	}
	for _, m := range going[:rapid.IntRange(1, len(going)).Draw(t, "go")] {
		// Someone who has the change already does not take it again.
		if now := w.member(m.Name); now.Stage == spread.Waiting {
			now.Stage = spread.Rolling
			w.disturbed(now)
		}
	}
}

// disturbed remembers by Why that a member had a place before it went.
func (w *world) disturbed(m *spread.Member) {
	if m.Disturbed {
		m.Why, m.Disturbed = "disturbed", false
	}
}

// Rules 37 and 38, whatever is out of date: the budget is kept, except for members that took up a place anyway, and no one goes before
// the waves before theirs have passed.
func TestNoViewLetsTooManyGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for range rapid.IntRange(1, 40).Draw(t, "rounds") {
			now := w.look()
			w.past = append(w.past, now)
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				w.goes(t, now)
			case 1:
				w.goes(t, rapid.SampledFrom(w.past).Draw(t, "an earlier view"))
			case 2:
				m := &w.members[rapid.IntRange(0, len(w.members)-1).Draw(t, "which")]
				switch m.Stage {
				case spread.Rolling:
					m.Stage = spread.Baking
				case spread.Baking:
					m.Stage = spread.Vouched
				case spread.Later:
					// It goes before others that went meanwhile. A process remembers what it let go, so no earlier view of its own
					// lets others go then (fleet).
					m.Stage, w.past = spread.Waiting, nil
				}
			case 3:
				// Passing is recorded, and may be late.
				w.open = max(w.open, now.Passes())
			case 4:
				w.open = max(w.open, rapid.SampledFrom(w.past).Draw(t, "an earlier view").Passes())
			}
			w.check(t)
		}
	})
}

func (w *world) check(t *rapid.T) {
	now := w.look()
	inFlight := 0
	for i, wave := range now.Waves {
		for _, m := range wave.Members {
			has := m.InFlight() || m.Stage == spread.Vouched
			if m.InFlight() && m.Why != "disturbed" {
				inFlight++
			}
			if has && i > 0 && i > w.open {
				t.Fatalf("%s has the change, in wave %d of which %d are open: %+v", m.Name, i, w.open, w.members)
			}
		}
	}
	if now.Budget > 0 && inFlight > now.Budget {
		t.Fatalf("%d members are in flight, at most %d may be: %+v", inFlight, now.Budget, w.members)
	}
}

// Liveness: whatever has happened, there is something that can be done, and doing it ends with everyone done.
func TestEveryoneIsDoneInTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for range rapid.IntRange(0, 20).Draw(t, "rounds") {
			w.goes(t, w.look())
		}
		for round := 0; !w.look().Done(); round++ {
			if round > 200 {
				t.Fatalf("it never ends: %+v, %d open", w.members, w.open)
			}
			now := w.look()
			w.goes(t, now)
			for i := range w.members {
				switch m := &w.members[i]; m.Stage {
				case spread.Rolling:
					m.Stage = spread.Baking
				case spread.Baking:
					m.Stage = spread.Vouched
				case spread.Later:
					// Someone ends its pause.
					m.Stage = spread.Waiting
				}
			}
			now = w.look()
			w.open = max(w.open, now.Passes())
			if open := now.Waves[now.Open]; open.Unproven() && now.Open < len(now.Waves)-1 {
				// The command that it names.
				w.open = now.Open + 1
			}
		}
	})
}
