//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/gen"
)

// Rule 5: two writers that do not see each other's revisions, such as two replicas of the webhook whose caches lag, may give two
// contents one number, or count out of order. An undo holds nevertheless, also when the webhook missed it: what other workloads are
// pinned to says nothing about what this one rolled out.
func anUndoHoldsWhateverNumbersOthersHave(m *member) {
	w, a := deployed(m.T)
	w.Create(deployment("other", envFrom("web"), gen.Annotated(keys.Advance, "manual")))
	w.WaitPinned("other", "web", "color", "A")
	b := w.editTo("B")
	c := w.editTo("C")
	// The other workload has B, with the number that C has.
	w.unguarded("annotate", "--overwrite", "configmap/"+b.Revision, fmt.Sprintf("%s=%d", keys.Number, c.Number))
	w.Kubectl("patch", "deployment/other", "--type=merge", "-p", fmt.Sprintf(
		`{"spec":{"template":{"metadata":{"annotations":{%q:"configmap/web=%s@%d"}}}}}`, keys.Pins, b.Revision, c.Number))
	w.WaitPinned("other", "web", "color", "B")
	m.next()
	w.Undo("web", "--to-revision=1")
	m.next()
	w.WaitHeld("web", "web")
	if got := w.PinOf("web", "web"); got != a {
		m.Errorf("after the undo the pin is %s, want %s", got, a)
	}
}

// Rules 4 and 5: a source that went to where the workload was rolled back has changed. When it goes to what was undone again,
// that is the next change.
func TestAHoldIsOverOnceTheSourceFollowedTheUndo(t *testing.T) {
	t.Parallel()
	w, a := deployed(t, gen.Annotated(keys.Settle, "0s"))
	b := w.editTo("B")
	w.Undo("web")
	w.WaitHeld("web", "web")
	w.Edit("web", "color", "A")
	w.Eventually("the note of the hold is over", func() string {
		note := w.Deployment("web").Annotations[keys.Held]
		if note != "" && note[len(note)-len(";ended"):] != ";ended" {
			return note
		}
		return ""
	})
	w.Barrier()
	if got := w.PinOf("web", "web"); got != a {
		t.Fatalf("the pin is %s, want %s", got, a)
	}
	if again := w.editTo("B"); again.Revision != b.Revision || again.Number <= b.Number {
		t.Errorf("pinned to %s, after %s", again, b)
	}
}
