package spread_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"confrev.io/confrev/internal/spread"
)

// firsts reads "a:Rolling B:Waiting!": members, of which those in capitals get their first pin. An exclamation mark is one that takes up no place.
func firsts(text string) []spread.Member {
	all := members(text)
	for i := range all {
		all[i].First = all[i].Name != strings.ToLower(all[i].Name)
		all[i].Free, all[i].Disturbed = all[i].Disturbed, false
	}
	return all
}

// Rule 38: first pins and members share the places for those that roll out, and first pins wait for nothing else.
func TestFirstPins(t *testing.T) {
	for name, test := range map[string]struct {
		members, max string
		goes         string
		done         bool
	}{
		"there is no limit":                         {"A:Waiting B:Waiting", "", "A B", false},
		"so many at a time":                         {"A:Waiting B:Waiting C:Waiting", "2", "A B", false},
		"one rolls out":                             {"A:Rolling B:Waiting C:Waiting", "2", "B", false},
		"one that comes later rolls out":            {"A:Waiting B:Waiting C:Rolling", "2", "A", false},
		"a percentage is one of all":                {"A:Vouched B:Vouched C:Vouched D:Waiting E:Waiting F:Waiting", "34%", "D E", false},
		"a member rolls out":                        {"a:Rolling B:Waiting", "1", "", false},
		"a member bakes, or has failed":             {"a:Baking b:Failed C:Waiting", "1", "C", false},
		"a first pin rolls out before members":      {"A:Rolling b:Waiting", "1", "", false},
		"one that is stuck keeps no one":            {"A:Failed B:Parked C:Unwell d:Waiting", "1", "d", false},
		"one that takes up no place":                {"A:Rolling B:Waiting C:Waiting!", "1", "C", false},
		"and keeps no one":                          {"A:Waiting! B:Waiting C:Waiting", "1", "A B", false},
		"one waits for something else":              {"A:Later B:Waiting", "1", "B", false},
		"it is the only one":                        {"A:Later", "1", "", false},
		"everyone is done":                          {"A:Vouched B:Failed c:Vouched", "1", "", true},
		"no member waits for those that are pinned": {"A:Vouched b:Waiting", "1", "b", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := spread.Look(firsts(test.members), settings(t, "", test.max), 0, spread.Place{})
			var goes []string
			for _, m := range s.Next() {
				goes = append(goes, m.Name)
			}
			if got := strings.Join(goes, " "); got != test.goes || s.Done() != test.done {
				t.Errorf("%s go, done %v; want %s", got, s.Done(), test.goes)
			}
		})
	}
}

// A workload that gets its first pin never counts for a wave, and stops and stages do not concern it.
func TestFirstPinsBelongToNoWave(t *testing.T) {
	s := spread.Look(firsts("A:Waiting b:Waiting C:Failed"), settings(t, "1", "1"), 0, spread.Place{})
	s.Stopped, s.Behind = true, true
	if verdict, ok := s.Of("A"); s.Members() != 1 || len(s.Waves) != 1 || verdict != spread.Goes || !ok {
		t.Errorf("%s, %+v", verdict, s)
	}
	if got := s.FirstPins(); len(got) != 2 || len(s.Failures(nil)) > 0 || slices.ContainsFunc(s.Has(), func(m spread.Member) bool { return m.First }) {
		t.Errorf("%+v", got)
	}
}

// Whatever members do, first pins keep to their budget, and all are given in the end although none ever gets well.
func TestAllGetTheirFirstPin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for i := range w.members {
			w.members[i].First = rapid.Bool().Draw(t, "first")
			if m := &w.members[i]; m.First && m.Stage != spread.Waiting {
				m.Stage = spread.Vouched
			}
		}
		for round := 0; len(w.look().FirstPins()) > 0; round++ {
			if round > 200 {
				t.Fatalf("it never ends: %+v", w.members)
			}
			now := w.look()
			for _, m := range now.Next() {
				if m.First {
					w.member(m.Name).Stage = spread.Rolling
				}
			}
			rolling := 0
			for i := range w.members {
				if m := &w.members[i]; m.First && m.Stage == spread.Rolling {
					rolling++
				}
			}
			if now.FirstBudget > 0 && rolling > now.FirstBudget {
				t.Fatalf("%d roll out, at most %d may: %+v", rolling, now.FirstBudget, w.members)
			}
			for i := range w.members {
				if m := &w.members[i]; m.Stage == spread.Rolling {
					m.Stage = rapid.SampledFrom([]spread.Stage{spread.Rolling, spread.Failed, spread.Parked, spread.Vouched}).Draw(t, "becomes")
					if round > 50 {
						m.Stage = spread.Failed
					}
				}
				if m := &w.members[i]; m.First && m.Stage != spread.Waiting && m.Stage != spread.Rolling {
					m.Stage = spread.Vouched
				}
			}
		}
	})
}
