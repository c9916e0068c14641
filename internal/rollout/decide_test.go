package rollout

import (
	"testing"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
)

// Rule 11: only what changes to sources roll out is counted, and waits.
func TestWhatOfAnIntentWaits(t *testing.T) {
	restart := planFor(pinA, pinB, "")
	tests := map[string]struct {
		want  intent
		waits bool
	}{
		"an advance":                      {intent{pins: planFor(pinA, pinB, "")}, true},
		"a restart":                       {intent{hashes: restart}, true},
		"a first pin":                     {intent{pins: planFor("", pinA, "")}, false},
		"a first pin, and a restart":      {intent{pins: planFor("", pinA, ""), hashes: restart}, false},
		"a hold":                          {intent{pins: planFor(pinA, pinA, heldB)}, false},
		"references that were put back":   {intent{pins: planFor(pinA, pinA, ""), inject: []podspec.Replacement{{Pointer: "/x", Name: "y"}}}, false},
		"pins that go with their mode":    {intent{pins: plan.Plan{}, release: true}, false},
		"the end of a pause":              {intent{resume: true}, false},
		"nothing is to be done":           {intent{}, false},
		"an advance, and a pause's end":   {intent{pins: planFor(pinA, pinB, ""), resume: true}, true},
		"an advance of what is put back":  {intent{pins: planFor(pinA, pinB, ""), inject: []podspec.Replacement{{Pointer: "/x", Name: "y"}}}, true},
		"a restart of what is pinned too": {intent{pins: planFor(pinA, pinA, ""), hashes: restart}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			change := test.want.change(&observed{})
			if waits := len(change.Advances) > 0 && !change.Urgent; waits != test.waits {
				t.Errorf("%+v", change)
			}
		})
	}
}

// Pins that only admission resolves are not written while nothing resolves them.
func TestWhatNeedsThePolicies(t *testing.T) {
	changed := intent{pins: planFor("", pinA, "")}
	references := intent{pins: planFor(pinA, pinA, ""), inject: []podspec.Replacement{{Pointer: "/x", Name: "app-bbbbbbbbbb"}}}
	released := intent{pins: plan.Plan{Pins: pin.Set{}}, release: true}
	restarts := intent{hashes: planFor(pinA, pinB, "")}
	for name, test := range map[string]struct {
		want      intent
		injection optin.Injection
		needs     bool
		nothing   bool
	}{
		"nothing to do":           {intent{}, optin.Admission, false, true},
		"a pin":                   {changed, optin.Admission, true, false},
		"a pin in the template":   {changed, optin.Template, false, false},
		"references back":         {references, optin.Admission, true, false},
		"references to revisions": {references, optin.Template, false, false},
		"pins that go":            {released, optin.Admission, false, false},
		"restarts":                {restarts, optin.Admission, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			change := test.want.change(&observed{config: optin.Config{Mode: optin.Revision, Injection: test.injection}})
			if change.NeedsPolicies != test.needs || (change.Text == "") != test.nothing || change.OnlyInjects != (len(test.want.inject) > 0) {
				t.Errorf("%+v", change)
			}
		})
	}
}
