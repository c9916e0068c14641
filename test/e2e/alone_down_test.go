//go:build e2e

package e2e

import (
	"context"
	"testing"
)

// What must hold while confrev is down, and when it is back. Not parallel.
func TestWhileConfrevIsDown(t *testing.T) {
	t.Cleanup(func() {
		// A test that failed before confrev was back is not to fail all others.
		if confrev.Ended() {
			if err := confrev.Start(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	down, up := confrev.Stop, func() error { return confrev.Start(t.Context()) }
	tests := map[string]func(m *member){
		"PodsStartWithTheirRevision": podsStartWithTheirRevision,
		"AnUndoHolds":                undoWhileConfrevIsDownHolds,
		"ARevisionInUseStays":        revisionInUseStays,
		"AnAttachedSourceInUseStays": attachedSourceInUseStays,
		"ModeRestartCatchesUp":       modeRestartCatchesUp,
		"TheModeIsSwitched":          modeSwitchedWhileConfrevIsDown,
		"NothingIsRefused":           nothingIsRefused,
		"AnUndoHoldsWhateverNumbers": anUndoHoldsWhateverNumbersOthersHave,
	}
	for _, s := range subjects {
		tests["Kinds/"+s.name] = func(m *member) { kindWhileConfrevIsDown(m, s) }
		tests["Plugin/"+s.name] = func(m *member) { pluginSteersWhileConfrevIsDown(m, s) }
	}
	together(t, []func() error{down, up, down, up}, tests)
}
