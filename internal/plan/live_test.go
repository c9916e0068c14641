package plan_test

import (
	"testing"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
)

// Rule 4, mode restart: A, B and C were rolled out, the workload was rolled back to B, and its pods started on C, which was live.
// When the source is back at B, the template is right and its pods are not.
func TestAHoldOfLivePodsEndsWithARestart(t *testing.T) {
	note := func(from, on string, ended bool) pin.Notes {
		return pin.Notes{app: {From: short(from), On: short(on), Ended: ended}}
	}
	tests := map[string]struct {
		held    pin.Notes
		on, now string
		frozen  bool
		stay    bool
		verdict plan.Verdict
		to      string
	}{
		"held":                                 {held: note("c@3", "b@2", false), on: "b@2", now: "c", verdict: plan.Held, to: "b@2"},
		"the source is back":                   {held: note("c@3", "b@2", false), on: "b@2", now: "b", verdict: plan.Advanced, to: "b@4"},
		"the source continues":                 {held: note("c@3", "b@2", false), on: "b@2", now: "a", verdict: plan.Advanced, to: "a@4"},
		"the source is back, and it must wait": {held: note("c@3", "b@2", false), on: "b@2", now: "b", stay: true, verdict: plan.Waiting, to: "b@2"},
		"it was never held":                    {on: "b@2", now: "b", verdict: plan.InSync, to: "b@2"},
		"the note is about another template":   {held: note("c@3", "a@1", false), on: "b@2", now: "b", verdict: plan.InSync, to: "b@2"},
		"the note is about one revision":       {held: note("b@3", "b@2", false), on: "b@2", now: "b", verdict: plan.InSync, to: "b@2"},
		"the hold has ended before":            {held: note("c@3", "b@2", true), on: "b@2", now: "b", verdict: plan.InSync, to: "b@2"},
		"its pods read a revision":             {held: note("c@3", "b@2", false), on: "b@2", now: "b", frozen: true, verdict: plan.InSync, to: "b@2"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := plan.Input{
				Uses: []podspec.Use{useAll}, Sources: map[pin.Source]plan.Source{app: source(test.now, "")}, Pins: set(test.on),
				Held: test.held, Holders: holders("a@1", "c@3", "b@2"), Live: !test.frozen, Occasion: stays[test.stay],
			}
			got := plan.Make(in)
			if d := got.Decisions[0]; d.Verdict != test.verdict || d.To != short(test.to) {
				t.Errorf("%s to %s, want %s to %s", d.Verdict, d.To, test.verdict, test.to)
			}
			if waits := test.verdict == plan.Held || test.stay; waits != (got.Held[app] != pin.Note{} && !got.Held[app].Ended) && !test.frozen {
				t.Errorf("the note is %+v", got.Held[app])
			}
			in.Pins, in.Held, in.Holders = got.Pins, got.Held, append(in.Holders, plan.Holder{Order: 9, Pins: got.Pins})
			if again := plan.Make(in); again.Changed() && !test.stay {
				t.Errorf("then it changes to %s", again.Pins)
			}
		})
	}
}

// What is no ConfigMap and no Secret has no keys: its hash alone shows whether it is what was rolled back.
func TestAHoldOfAnyOtherObjectEndsWhenItChanges(t *testing.T) {
	for now, verdict := range map[string]plan.Verdict{"app-b": plan.Held, "app-c": plan.Advanced} {
		in := plan.Input{
			Uses: []podspec.Use{useAll}, Sources: map[pin.Source]plan.Source{app: {Present: true, Name: "app-b"}}, Pins: set("a@1"),
			Holders: holders("b@2", "a@1"), Live: true,
		}
		held := plan.Make(in)
		if held.Decisions[0].Verdict != plan.Held {
			t.Fatalf("it is not held: %+v", held.Decisions)
		}
		in.Held, in.Sources[app] = held.Held, plan.Source{Present: true, Name: now}
		in.Holders = holders("a@1") // that of b is pruned
		if got := plan.Make(in).Decisions[0].Verdict; got != verdict {
			t.Errorf("with %s it is %s, want %s", now, got, verdict)
		}
	}
}

// Rule 6, mode restart: an optional source that does not exist is missing only where the pods were started with it.
func TestAnOptionalSourceThatLivePodsLack(t *testing.T) {
	for on, verdict := range map[string]plan.Verdict{"": plan.Absent, "a@1": plan.SourceMissing} {
		in := planCase{use: useOptional, pins: on, holders: []string{on}}.input()
		in.Live = true
		p := plan.Make(in)
		if d := p.Decisions[0]; d.Verdict != verdict || d.To != short(on) || p.Changed() {
			t.Errorf("with the pin %q it is %s to %s, want %s", on, d.Verdict, d.To, verdict)
		}
	}
}
