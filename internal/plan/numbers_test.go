package plan_test

import (
	"testing"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
)

// A number beyond 15 digits is one that pin.Parse and the admission policies refuse, so no pod could start; and beyond
// 64 bits it wraps around. Revisions may carry any number: it is an annotation that a user or a backup can bring.
func TestNumbersThatNoPinCanHoldCountAsNone(t *testing.T) {
	for name, number := range map[string]int64{
		"the last but one": 999_999_999_999_998,
		"of 15 digits":     999_999_999_999_999,
		"of 16 digits":     1_000_000_000_000_000,
		"of 63 bits":       1<<63 - 1,
	} {
		t.Run(name, func(t *testing.T) {
			in := planCase{content: "b"}.input()
			s := in.Sources[app]
			s.Name = "app-cccccccccc"
			s.Revisions = []plan.Revision{revision(pin.Pin{Revision: "app-bbbbbbbbbb", Number: number})}
			in.Sources[app] = s
			p := plan.Make(in)
			if _, err := pin.Parse(p.Pins.String()); err != nil {
				t.Errorf("the plan pins what cannot be read again: %v", err)
			}
			// In a pin or a note, it is no better.
			for _, in := range []plan.Input{
				{Pins: pin.Set{app: {Revision: "app-a", Number: number}}},
				{Holders: []plan.Holder{{Order: 1, Pins: pin.Set{app: {Revision: "app-a", Number: number}}}}},
				{Held: pin.Notes{app: {From: pin.Pin{Revision: "app-c", Number: number}, On: short("a@1")}}},
				{Pins: pin.Set{app: short("a@1")}, Held: pin.Notes{app: {From: pin.Pin{Revision: "app-c", Number: number}, On: short("a@1"), Ended: true}}},
			} {
				in.Uses, in.Sources = []podspec.Use{useAll}, map[pin.Source]plan.Source{app: source("b", "")}
				if to := plan.Make(in).Decisions[0].To; to.Number >= pin.MaxNumber || to.Revision != "app-b" {
					t.Errorf("the plan pins %s", to)
				}
			}
		})
	}
}

// Rule 5: the present content has the highest number, its own if it has that already.
func TestFollowingNumber(t *testing.T) {
	number := func(name string, n int64) plan.Revision { return plan.Revision{Name: name, Number: n} }
	for name, test := range map[string]struct {
		revisions []plan.Revision
		want      int64
	}{
		"there are none":                  {nil, 1},
		"it has the highest":              {[]plan.Revision{number("app-now", 3), number("app-old", 2)}, 3},
		"another has the highest":         {[]plan.Revision{number("app-now", 2), number("app-old", 3)}, 4},
		"another has the same":            {[]plan.Revision{number("app-now", 3), number("app-old", 3)}, 4},
		"it is new":                       {[]plan.Revision{number("app-old", 3)}, 4},
		"a number that no pin can hold":   {[]plan.Revision{number("app-old", 1_000_000_000_000_000)}, 1},
		"the last but one":                {[]plan.Revision{number("app-old", 999_999_999_999_998)}, 1},
		"its own is the last but one":     {[]plan.Revision{number("app-now", 999_999_999_999_998), number("app-old", 3)}, 4},
		"its own is one that no pin can":  {[]plan.Revision{number("app-now", 1<<63-1), number("app-old", 3)}, 4},
		"it has one, and nothing else is": {[]plan.Revision{number("app-now", 7)}, 7},
	} {
		if got := (plan.Source{Name: "app-now", Revisions: test.revisions}).FollowingNumber(); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
