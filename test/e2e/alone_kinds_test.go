//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Killed at any moment of an edit, confrev comes to the same state, whatever the kind. Not parallel.
func TestKilledInTheMidstOfEditsOfEveryKind(t *testing.T) {
	const edits = 3
	kill := func() error {
		time.Sleep(time.Duration(rand.IntN(int(3*settle/2/time.Millisecond))) * time.Millisecond)
		return errors.Join(confrev.Kill(), confrev.Start(context.Background()))
	}
	// Kinds take differently long for the edit before. Whichever was first would have this one behind it when confrev is killed.
	aligned := func() error { return nil }
	tests := map[string]func(m *member){}
	for _, s := range subjects {
		tests[s.name] = func(m *member) {
			w := newWorld(m.T)
			a, first := w.launch(s, "web")
			w.Barrier()
			all := []pins{first}
			for i := range edits {
				generation := a.generation()
				m.next()
				a.editBoth(fmt.Sprint("edit ", i))
				m.next()
				p := a.waitPinnedTo(fmt.Sprint("edit ", i))
				w.Barrier()
				if got := a.generation() - generation; got != 1 {
					m.Errorf("edit %d changed the template %d times, want 1", i, got)
				}
				all = append(all, p)
			}
			a.waitOwned(all[len(all)-1])
			if a.start == nil {
				a.waitMade(all...)
			}
		}
	}
	together(t, slices.Repeat([]func() error{aligned, kill}, edits), tests)
}

// A kind that is uninstalled, and comes back, stops nothing. Not parallel.
func TestKindThatIsUninstalledStopsNothing(t *testing.T) {
	w := newWorld(t)
	before, _ := w.launch(subjectOf("Configured"), "before")
	before.remove()
	w.Must(removeWebApps(w.Ctx))
	a, _ := w.launch(subjectOf("Deployment"), "web")
	a.editTo("B")
	// Whether anything uses the orphan is looked up in all kinds.
	w.Create(orphan())
	w.waitGone(orphan().Name)
	w.Must(installWebApps(w.Ctx))
	after, _ := w.launch(subjectOf("Configured"), "after")
	after.editTo("B")
}
