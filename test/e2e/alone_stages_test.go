//go:build e2e

package e2e

import (
	"os"
	"strings"
	"testing"
)

// Rule 44: confrev ends after each of its writes while a change goes from one namespace to the next, and starts again. The next namespace gets the
// change once, and not before the first has vouched for it.
func TestConfrevEndsAfterEachWriteOfAChangeInStages(t *testing.T) {
	earlier, later := newStages(t)
	first := earlier.fleet(nil, "a")
	if got := later.fleet(nil, "b"); got != first {
		t.Fatalf("the same content is %s and %s", first, got)
	}
	later.comesAfter(earlier)
	c, endConduct := later.conduct("shared", first, 2, earlier.NS)
	later.Edit("shared", "color", "B")
	later.WaitEvent("WaitingToAdvance", "b", "configmap/shared")
	earlier.Edit("shared", "color", "B")
	// Both Deployments take the change, the first namespace vouches for it, and the second notes that it was free to begin.
	c.endAfterEach(4)
	later.areRolledOut("b")
	endConduct()
	c.wroteOnly("a takes", `"complete":true`, "b takes", `"staged":true`)
	// Someone who reads the log must know which of many sources it is about.
	logged, err := os.ReadFile(confrev.Log)
	earlier.Must(err)
	about := "every workload has vouched for a change, for which other namespaces may wait\" controller=spread namespace=" + earlier.NS + " source=configmap/shared"
	if !strings.Contains(string(logged), about) {
		t.Errorf("the log lacks %s; see %s", about, confrev.Log)
	}
}
