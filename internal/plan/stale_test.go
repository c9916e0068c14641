package plan_test

import (
	"testing"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/test/gen"
)

// Rule 21.6: which pins go when the template changes anyway.
func TestStale(t *testing.T) {
	web := pin.Source{Kind: pin.ConfigMap, Name: "web"}
	tests := map[string]struct {
		standing         plan.Standing
		deploys, undoing bool // whether the pin goes
	}{
		"nothing refers to it":              {0, true, true},
		"the workload does not track it":    {plan.Untracked, true, false},
		"it says that it is read live":      {plan.ReadLive, true, true},
		"it is missing, or its kind is off": {plan.Unasked, false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for undo, gone := range map[bool]bool{false: test.deploys, true: test.undoing} {
				in := planCase{content: "a", revisions: "a@1", pins: "a@1"}.input()
				in.Pins[web] = gen.Pins("configmap/web=web-x@1")[web]
				in.Unfollowed, in.Undo = map[pin.Source]plan.Standing{web: test.standing}, undo
				p := plan.Make(in)
				if _, pinned := p.Pins[web]; pinned == gone || p.Pins[app] != in.Pins[app] {
					t.Errorf("undo %v: pins %s", undo, p.Pins)
				}
				if p.Changed() {
					t.Errorf("undo %v: it is a rollout of its own", undo)
				}
			}
		})
	}
}

// Rule 6: pods of a template that pins the absence of a source that exists now would never see it.
func TestPinsAbsence(t *testing.T) {
	for name, test := range map[string]struct {
		standing plan.Standing
		pinned   bool
		want     bool
	}{
		"it appeared, and its absence is pinned": {plan.Appeared, true, true},
		"it appeared, and nothing is pinned":     {plan.Appeared, false, false},
		"it is not tracked":                      {plan.Untracked, true, false},
	} {
		in := plan.Input{Unfollowed: map[pin.Source]plan.Standing{app: test.standing}, Pins: pin.Set{}}
		if test.pinned {
			in.Pins[app] = gen.Pins("configmap/app=app-x@1")[app]
		}
		if got := in.PinsAbsence(); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
