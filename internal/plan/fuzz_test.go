package plan_test

import (
	"testing"

	"pgregory.net/rapid"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
)

// drawInput draws any input at all, also such as no cluster would ever show.
func drawInput(t *rapid.T) plan.Input {
	letters := rapid.SampledFrom([]string{"a", "a2", "b", "b2", "c", "k", "none"})
	number := rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, 999_999_999_999_000))
	somePin := rapid.Custom(func(t *rapid.T) pin.Pin {
		return pin.Pin{Revision: "app-" + letters.Draw(t, "revision"), Number: number.Draw(t, "number")}
	})
	pins := rapid.MapOfN(rapid.SampledFrom([]pin.Source{app, web, db}), somePin, 0, 3)
	known := rapid.Custom(func(t *rapid.T) plan.Source {
		s := source("", "")
		if rapid.IntRange(0, 5).Draw(t, "deleted") > 0 {
			s = source(letters.Draw(t, "content"), "")
		}
		for _, letter := range rapid.SliceOfNDistinct(letters, 0, 4, rapid.ID[string]).Draw(t, "revisions") {
			r := revision(pin.Pin{Revision: "app-" + letter, Number: number.Draw(t, "number")})
			switch rapid.IntRange(0, 5).Draw(t, "described") {
			case 0:
				r.Digests = nil
			case 1:
				r.Hash = content.Hash("v0-" + letter)
			case 2:
				r.Number = 0
			}
			s.Revisions = append(s.Revisions, r)
		}
		return s
	})
	in := plan.Input{
		Sources: map[pin.Source]plan.Source{}, Pins: pins.Draw(t, "pins"), Held: pin.Notes{}, Occasion: rapid.SampledFrom([]plan.Occasion{plan.Edit, plan.Change}).Draw(t, "occasion"),
	}
	for source, from := range pins.Draw(t, "held") {
		note := pin.Note{From: from, On: in.Pins[source], Ended: rapid.Bool().Draw(t, "ended")}
		if note.On == (pin.Pin{}) || rapid.Bool().Draw(t, "void") {
			note.On = somePin.Draw(t, "on")
		}
		if rapid.Bool().Draw(t, "keys") {
			note.Keys = digests(letters.Draw(t, "used")).Sum(false, []string{"used"})
		}
		in.Held[source] = note
	}
	for _, source := range rapid.SliceOfNDistinct(rapid.SampledFrom([]pin.Source{app, web, db}), 0, 3, rapid.ID[pin.Source]).Draw(t, "uses") {
		use := rapid.SampledFrom([]podspec.Use{useAll, useKey, useOptional, useOptKey}).Draw(t, "use")
		use.Source = source
		in.Uses = append(in.Uses, use)
		if rapid.IntRange(0, 7).Draw(t, "unknown") > 0 {
			in.Sources[source] = known.Draw(t, "source")
		}
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "holders") {
		in.Holders = append(in.Holders, plan.Holder{Order: int64(i), Pins: pins.Draw(t, "holder")})
	}
	return in
}

// anyInput: even where the input contradicts itself, a plan is deterministic, stable once applied, and makes no rollout
// of a workload that is in sync; see makePlan. Two revisions of one number that are the same to the workload may take
// turns in the note, so the order of holders is not mixed here.
func anyInput(t *rapid.T) {
	in := drawInput(t)
	p := plan.Make(clone(in))
	checkDecisions(t, in, p)
	after := applied(in, p)
	again := plan.Make(clone(after))
	if again.Changed() {
		t.Fatalf("the plan %+v\nof %+v\nis not stable: %+v", p, in, again)
	}
	if again.Pins.String() != p.Pins.String() || again.Held.String() != p.Held.String() {
		t.Fatalf("pins %s, note %s became %s, %s", p.Pins, p.Held, again.Pins, again.Held)
	}
	for _, d := range p.Decisions {
		moves := d.Verdict == plan.Pinned || d.Verdict == plan.Advanced || (d.Verdict == plan.Held && d.From == pin.Pin{}) ||
			d.Verdict == plan.Absent && (in.Occasion == plan.Change || p.Changed())
		if moves != (d.To != d.From) {
			t.Fatalf("%s moves the pin from %q to %q", d.Verdict, d.From, d.To)
		}
		if d.Verdict != plan.Held && moves && d.To != d.Current {
			t.Fatalf("%s moves the pin to %s, which is not current, %s", d.Verdict, d.To, d.Current)
		}
	}
}

func TestPlansOfAnyInput(t *testing.T) { rapid.Check(t, anyInput) }

// FuzzMake does the same, guided by coverage.
func FuzzMake(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 1024))
	seed := make([]byte, 4096)
	for i := range seed {
		seed[i] = byte(i * 37)
	}
	f.Add(seed)
	f.Fuzz(rapid.MakeFuzz(anyInput))
}
