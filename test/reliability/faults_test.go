//go:build reliability

package reliability

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/faults"
	"confrev.io/confrev/test/gen"
)

// seed is that of all faults. A test that fails with it fails again with it, as far as what happens at the same time permits.
const seed = 1

// chances are how probable each fault is where it is the only one. A client waits the longer, the more often its watch has ended.
// With more errors, webhooks that cannot read miss the deploy, which is one more rollout (rule 18).
var chances = faults.Chances{
	faults.Latency: 0.5, faults.TooMany: 0.2, faults.Conflict: 0.3, faults.ServerError: 0.05, faults.Unavailable: 0.05,
	faults.LostAnswer: 0.3, faults.Repeat: 0.5, faults.Hold: 0.05, faults.Break: 0.02, faults.Expire: 0.02,
}

// Rules 2, 3, 4, 5, 13 and 21: a story of edits, an undo and a deploy has the same end with each of the faults in turn, and with all of them, as it
// has without any. No rollout is doubled by a write whose answer was lost, no hold is lost with an event, and no revision is missing or left over.
func TestTheStoryHasTheSameEndWithEachFault(t *testing.T) {
	var want string
	t.Run("none", func(t *testing.T) {
		m := alone(t, "story-none", faults.Options{})
		w := newWorld(t)
		w.prepareStory()
		generations := w.generations()
		w.story()
		w.endOfStory(generations)
		w.stays(3*time.Second, func() string {
			if now := w.state(true); now != want {
				want = now
				return "the state changes"
			}
			return ""
		})
		t.Logf("%d writes; the end:\n%s", len(m.proxy.Writes()), want)
	})
	if t.Failed() {
		t.FailNow()
	}
	for _, kind := range faults.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			withFaults(t, faults.Chances{kind: chances[kind]}, want)
		})
	}
	t.Run("all", func(t *testing.T) {
		all := faults.Chances{}
		for kind, chance := range chances {
			all[kind] = chance / 5
		}
		withFaults(t, all, want)
	})
}

func withFaults(t *testing.T, of faults.Chances, want string) {
	m := alone(t, "story", faults.Options{Seed: seed})
	w := newWorld(t)
	w.prepareStory()
	m.proxy.Set(of)
	began := time.Now()
	w.story()
	same := func() string {
		if now := w.state(true); now != want {
			return "it is\n" + now + "\nwant\n" + want
		}
		return ""
	}
	w.Eventually("the same end as without faults", same)
	took := time.Since(began)
	// What comes late must change nothing: it has dealt with all when it has dealt with a later change.
	w.Barrier()
	if complaint := same(); complaint != "" {
		t.Error(complaint)
	}
	counts := m.proxy.Counts()
	t.Logf("%s, %d writes, faults: %v", took.Round(time.Second), len(m.proxy.Writes()), counts)
	for kind := range of {
		if counts[kind] == 0 {
			t.Errorf("no %s: this shows nothing", kind)
		}
	}
	m.proxy.Set(nil)
}

// Rules 12 and 14. When the anchor gives a revision back to its users, a workload that has moved on meanwhile is none of them. One that moves on later
// still owns the revision. The story may come to either end, so they count as the same.
func TestAWorkloadMayOwnARevisionThatItNoLongerUses(t *testing.T) {
	// Of the revisions of A, B and C, the deployed workload uses only the last: it keeps one old template, which its first code had.
	play := func(w *world, before func()) {
		w.Create(configMap(source, "A"))
		for i := range 8 {
			w.Create(deployment("web-"+strconv.Itoa(i), gen.HistoryLimit(1)))
		}
		w.waitPinned("A")
		w.noteRollouts()
		w.Edit(source, color, "B")
		w.waitPinned("B")
		before()
		w.Edit(source, color, "C")
		w.waitPinned("C")
		w.deploy(deployed, "app:2")
		w.Eventually(deployed+" no longer uses what was before", func() string {
			if n := len(w.ReplicaSets(deployed)); n != 2 {
				return fmt.Sprint(n, " templates")
			}
			return w.NotRolledOut(deployed)
		})
	}
	owners := func(w *world) (names []string) {
		for _, revision := range w.Revisions(source) {
			if revision.Data[color] == "B" {
				for _, owner := range revision.OwnerReferences {
					names = append(names, owner.Name)
				}
			}
		}
		return names
	}
	var ends [2]string
	t.Run("given back before", func(t *testing.T) {
		alone(t, "idle", faults.Options{})
		w := newWorld(t)
		play(w, w.notAnchored)
		ends[0] = w.state(true)
		if names := owners(w); !slices.Contains(names, deployed) {
			t.Errorf("the owners are %q, without %s", names, deployed)
		}
	})
	t.Run("given back later", func(t *testing.T) {
		slow := alone(t, "idle-slow", faults.Options{}, "--grace", "1h")
		w := newWorld(t)
		play(w, func() {})
		if names := owners(w); !slices.Equal(names, []string{revision.AnchorName}) {
			t.Fatalf("the owners are %q: this shows nothing", names)
		}
		w.Must(slow.Stop())
		alone(t, "idle", faults.Options{})
		ends[1] = w.state(true)
		if names := owners(w); slices.Contains(names, deployed) {
			t.Errorf("the owners are %q, with %s", names, deployed)
		}
	})
	if ends[0] != ends[1] {
		t.Errorf("they are not the same:\n%s\nand\n%s", ends[0], ends[1])
	}
}

// prepareStory creates what the story is about: ten Deployments and a StatefulSet that use one ConfigMap and keep one old template each.
func (w *world) prepareStory() {
	w.Helper()
	w.Create(configMap(source, "0"), statefulSet("set", gen.HistoryLimit(1)))
	for i := range 10 {
		w.Create(deployment("web-"+strconv.Itoa(i), gen.HistoryLimit(1)))
	}
	w.waitPinned("0")
	w.noteRollouts()
}

// Which Deployments are rolled back, and deployed.
const undone, deployed = "web-0", "web-1"

// story does what users do: each step waits for what was done before.
func (w *world) story() {
	w.Helper()
	for _, value := range []string{"1", "2", "3"} {
		w.Edit(source, color, value)
		w.waitPinned(value)
	}
	w.Undo(undone)
	w.Eventually(undone+" is held", func() string { return w.notHeld(undone) })
	w.deploy(deployed, "app:2")
	w.Eventually("all are rolled out", func() string { return w.notPinned("3", map[string]string{undone: "2"}) })
}

// endOfStory waits for the end as it must be since there were these generations, without a look at how it was with other runs.
func (w *world) endOfStory(generations map[string]int64) {
	w.Helper()
	w.Eventually("the end", func() string {
		for _, s := range w.subjects() {
			// Three edits, and one of the two more.
			want := int64(3)
			if slices.Contains([]string{undone, deployed}, s.GetName()) {
				want = 4
			}
			if got := s.rolledOut() - w.rollouts[s.String()]; got != want {
				w.Fatalf("%s has rolled out %d times, want %d", s, got, want)
			}
			// A generation that is not a rollout is a change for no reason.
			if got := s.GetGeneration() - generations[s.GetName()+" "+string(s.GetUID())]; got != want {
				w.Fatalf("%s has changed %d times, want %d", s, got, want)
			}
		}
		if n := len(w.Revisions(source)); n != 2 {
			return fmt.Sprintf("%d revisions, want the last two", n)
		}
		return ""
	})
}

func mustNumber(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}
