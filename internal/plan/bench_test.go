package plan_test

import (
	"testing"

	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/waiting"
)

// BenchmarkGates measures what settings that make pins wait cost each plan: of two sources that have changed, and of two that have not.
func BenchmarkGates(b *testing.B) {
	window, err := waiting.ParseWindow("0 9 * * 1-5 8h Europe/Berlin; 0 7 1 * * 2h", "window")
	if err != nil {
		b.Fatal(err)
	}
	freeze, err := waiting.ParseFreeze("2026-12-27", "freeze")
	if err != nil {
		b.Fatal(err)
	}
	for name, gates := range map[string][]waiting.Gate{"None": nil, "Manual": {manual}, "Freeze": {freeze}, "FreezeAndWindow": {freeze, window}} {
		for _, changed := range []bool{true, false} {
			in := twoSources()
			in.Gates = gates
			if !changed {
				in.Pins = plan.Make(twoSources()).Pins
			}
			b.Run(map[bool]string{true: "Changed/", false: "Unchanged/"}[changed]+name, func(b *testing.B) {
				for b.Loop() {
					plan.Make(in)
				}
			})
		}
	}
}
