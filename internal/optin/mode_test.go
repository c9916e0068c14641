package optin_test

import (
	"testing"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
)

// Each mode has exactly one way to handle sources, and can be asked for by its name.
func TestEveryModeHandlesSourcesInOneWay(t *testing.T) {
	for _, mode := range optin.Modes {
		ways := 0
		for _, way := range []bool{mode.Pins, mode.Restarts, mode.Attaches} {
			if way {
				ways++
			}
		}
		if got := optin.ModeOf(annotated(keys.Mode, mode.Name)); ways != 1 || got != mode {
			t.Errorf("mode %+v has %d ways; its name is read as %+v", mode, ways, got)
		}
	}
}

// The table of docs/rules/policies.md.
func TestWhatPoliciesMean(t *testing.T) {
	// Whether a source is selected as pinned or to restart, as rotating, or not at all.
	type meaning struct{ revision, restart string }
	want := map[string]meaning{
		"revision": {"tracked", "tracked"}, "rotate": {"rotates", "tracked"}, "live": {"", "tracked"}, "ignore": {"", ""},
	}
	if len(optin.Policies) != len(want) {
		t.Errorf("the policies are %v", optin.Policies)
	}
	track, err := optin.ParseTrack("all")
	if err != nil {
		t.Fatal(err)
	}
	for _, policy := range optin.Policies {
		in := func(frozen bool) string {
			selection := track.Select(usesOf("configmap/app"), frozen, traitsOf(map[string]optin.Traits{"configmap/app": {Policy: policy}}))
			switch {
			case len(selection.Uses) > 0:
				return "tracked"
			case len(selection.Rotating) > 0:
				return "rotates"
			}
			return ""
		}
		if got := (meaning{in(true), in(false)}); got != want[policy.Name] {
			t.Errorf("policy %s: %+v, want %+v", policy, got, want[policy.Name])
		}
		if policy.ReadsLive == (policy == optin.PolicyRevision) {
			t.Errorf("policy %s: pods read the source live: %v", policy, policy.ReadsLive)
		}
	}
}
