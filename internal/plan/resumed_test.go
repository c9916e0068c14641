package plan_test

import (
	"testing"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
)

// Rule 40: ending a stop frees those that confrev rolled back because of it, and no one else. The number stays, so that the change is the same.
func TestWhoeverConfrevRolledBackIsFreed(t *testing.T) {
	const back, again = "a@1", "b@2"
	for name, test := range map[string]struct {
		note    pin.Note
		resumed int
		holders []plan.Holder
		turns   bool
		pinless bool
		want    plan.Verdict
		noted   int
	}{
		"no one has ended the stop":            {note: pin.Note{Stop: 1, Order: 2}, want: plan.Held, noted: 1},
		"it was ended":                         {note: pin.Note{Stop: 1, Order: 2}, resumed: 1, want: plan.Advanced},
		"its turn is to come":                  {note: pin.Note{Stop: 1, Order: 2}, resumed: 1, turns: true, want: plan.Waiting, noted: 1},
		"an earlier stop was ended":            {note: pin.Note{Stop: 2, Order: 2}, resumed: 1, want: plan.Held, noted: 2},
		"a person rolled it back":              {note: pin.Note{}, resumed: 1, want: plan.Held},
		"a person did after it had it again":   {note: pin.Note{Stop: 1, Order: 2}, resumed: 1, holders: ordered(back, 4, again, 3), want: plan.Held},
		"and no holder shows it yet":           {note: pin.Note{Stop: 1, Order: 0}, resumed: 1, want: plan.Held},
		"the holder was pruned":                {note: pin.Note{Stop: 1, Order: 2}, resumed: 1, holders: ordered(back, 3), want: plan.Advanced},
		"the pin was removed":                  {note: pin.Note{Stop: 1, Order: 2}, pinless: true, want: plan.Held, noted: 1},
		"the note is about another pin":        {note: pin.Note{On: short("c@1"), Stop: 1, Order: 2}, resumed: 1, want: plan.Held},
		"the hold had ended for other content": {note: pin.Note{From: short("c@1"), Ended: true, Stop: 1, Order: 2}, resumed: 1, want: plan.Held},
	} {
		t.Run(name, func(t *testing.T) {
			in := planCase{content: "b", revisions: "a@1 b@2", pins: back}.input()
			if test.pinless {
				in.Pins = nil
			}
			if in.Holders = test.holders; test.holders == nil {
				in.Holders = ordered(again, 2, back, 3)
			}
			if test.note.From == (pin.Pin{}) {
				test.note.From = short(again)
			}
			if test.note.On == (pin.Pin{}) {
				test.note.On = short(back)
			}
			in.Held = pin.Notes{app: test.note}
			about := in.Sources[app]
			about.Resumed = test.resumed
			in.Sources[app] = about
			if test.turns {
				in.Occasion = plan.Request
			}
			p := plan.Make(in)
			if got := p.Decisions[0]; got.Verdict != test.want || got.Current != short(again) || p.Held[app].Stop != test.noted {
				t.Errorf("%+v, noted %+v; want %s and stop %d", got, p.Held[app], test.want, test.noted)
			}
			// What is planned is stable: the note that is written leads to the same plan.
			if in.Held = p.Held; test.want != plan.Advanced {
				if again := plan.Make(in); again.Decisions[0].Verdict != test.want || again.Held[app] != p.Held[app] {
					t.Errorf("then %+v, noted %+v", again.Decisions[0], again.Held[app])
				}
			}
		})
	}
}

// ordered makes holders of pins and their orders.
func ordered(pinsAndOrders ...any) (all []plan.Holder) {
	for i := 0; i < len(pinsAndOrders); i += 2 {
		all = append(all, plan.Holder{Pins: set(pinsAndOrders[i].(string)), Order: int64(pinsAndOrders[i+1].(int))})
	}
	return all
}

// The note of a stop names the newest holder of what the workload was rolled back from.
func TestNoteOfAStop(t *testing.T) {
	d := plan.Decision{Source: app, Current: short("b@2"), To: short("a@1")}
	shown := ordered("b@2", 2, "b@2", 5, "a@1", 6)
	for stop, want := range map[int]pin.Note{0: {From: d.Current, On: d.To}, 2: {From: d.Current, On: d.To, Stop: 2, Order: 5}} {
		if got := plan.NoteOfStop(shown, d, stop); got != want {
			t.Errorf("stop %d: %+v", stop, got)
		}
	}
}
