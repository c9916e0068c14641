package view

import (
	"testing"

	"confrev.io/confrev/test/gen"
)

// A revision does not spread: its source does.
func TestHowFarARevisionHasSpread(t *testing.T) {
	v := seen{objects: with(gen.App("b"), gen.Web("app:1", gen.Pinned(second), done))}.view(t)
	for name, want := range map[string]string{
		"app":                   "",
		"none":                  `configmaps "none" not found`,
		gen.NameOfRevision("b"): "configmap/" + gen.NameOfRevision("b") + " is itself a revision; its source is configmap/app",
	} {
		if _, err := v.Spreads(t.Context(), []Object{sourceObject(name)}); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("of %s: %v", name, err)
		}
	}
}
