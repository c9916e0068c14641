//go:build reliability

package reliability

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/faults"
	"confrev.io/confrev/test/gen"
)

// The wall clock of confrev's machine jumps, forward and back, while it runs and before it starts: a change is still one rollout, a hold stays, and what
// nothing uses goes. No other clock of the cluster jumps.
func TestTheClockJumps(t *testing.T) {
	built, clock, err := cluster.BuildWithClock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := prepareBuilt(t, built, "clock", faults.Options{Seed: seed})
	m.start()
	w := newWorld(t)
	w.Must(cluster.WaitWebhook(w.Ctx))
	w.has("A", deployment("a"), deployment("b", gen.HistoryLimit(0)))
	before := w.generations()
	jumps := []time.Duration{time.Hour, -time.Hour, 30 * 24 * time.Hour, 0}
	for _, ahead := range jumps {
		w.Must(clock.Set(ahead))
		value := fmt.Sprint(ahead, " ahead")
		w.Edit(source, color, value)
		w.waitPinned(value)
		w.Barrier()
	}
	for name, generation := range w.generations() {
		if n := generation - before[name]; n != int64(len(jumps)) {
			t.Errorf("%s has rolled out %d times for %d changes", name, n, len(jumps))
		}
	}
	w.Must(clock.Set(time.Hour))
	w.Undo("a")
	w.Eventually("a is held", func() string { return w.notHeld("a") })
	for _, ahead := range []time.Duration{-time.Hour, 0} {
		w.Must(clock.Set(ahead))
		w.Barrier()
		if complaint := w.notHeld("a"); complaint != "" {
			t.Errorf("with a clock that is %s ahead: %s", ahead, complaint)
		}
	}
	w.startsWith(m, clock.Set, time.Hour, -time.Hour, 0)
	w.Eventually("revisions are those that are in use", w.leftovers)
}

// startsWith starts confrev again with clocks that are ahead by some times, and lets a change happen with each.
func (w *world) startsWith(m *member, set func(time.Duration) error, clocks ...time.Duration) {
	w.Helper()
	for _, ahead := range clocks {
		w.Must(m.Kill())
		w.Must(set(ahead))
		w.Must(m.Start(w.Ctx))
		value := fmt.Sprint("started ", ahead, " ahead")
		w.Edit(source, color, value)
		w.waitPinned(value)
		w.Barrier()
	}
}

// leftovers complains of revisions that no template of a Deployment or ReplicaSet pins.
func (w *world) leftovers() string {
	used := ""
	for _, name := range []string{"a", "b"} {
		used += w.PinsText(name)
		for _, rs := range w.ReplicaSets(name) {
			used += "," + rs.Spec.Template.Annotations[keys.Pins]
		}
	}
	for _, revision := range w.Revisions(source) {
		if !strings.Contains(used, "="+revision.Name+"@") {
			return revision.Name + " is left, and nothing uses it"
		}
	}
	return ""
}
