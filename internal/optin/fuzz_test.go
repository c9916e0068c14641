package optin_test

import (
	"testing"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// FuzzParseTrack checks that what is tracked was written, and that a slip is always said.
func FuzzParseTrack(f *testing.F) {
	for _, seed := range []string{"all", "none", "", "configmap/app,secret/db", "configmap/app, oops", ",,"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		track, err := optin.ParseTrack(text)
		selection := track.Select(usesOf("configmap/app configmap/web secret/db"), true, traitsOf(nil))
		found := len(selection.Uses) + len(selection.Unused)
		if !track.Enabled() && found > 0 {
			t.Errorf("%q tracks nothing, yet selects %+v", text, selection)
		}
		if err == nil && track.ListsKind(pin.Secret) && track.ListsKind(pin.ConfigMap) && found < 2 {
			t.Errorf("%q lists both kinds, yet selects %+v", text, selection)
		}
	})
}
