//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Rule 44: confrev ends after each of its writes while a change goes from one namespace to the next, and starts again. The next namespace gets the
// change once, and not before the first has vouched for it.
func TestConfrevEndsAfterEachWriteOfAChangeInStages(t *testing.T) {
	earlier, later := newStages(t)
	later.comesAfter(earlier)
	first := earlier.fleet(nil, "a")
	if got := later.fleet(nil, "b"); got != first {
		t.Fatalf("the same content is %s and %s", first, got)
	}
	c, endConduct := later.conduct("shared", first, 2, earlier.NS)
	later.Edit("shared", "color", "B")
	later.WaitEvent("WaitingToAdvance", "b", "configmap/shared")
	earlier.Edit("shared", "color", "B")
	// Both Deployments take the change, the first namespace vouches for it, and the second notes that it was free to begin.
	c.endAfterEach(4)
	later.areRolledOut("b")
	vouched := func(write string) bool { return strings.Contains(write, `"proven":{"wave":0,"name":"deployment/b"}`) }
	c.Eventually("b has vouched", func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !slices.ContainsFunc(c.writes, vouched) {
			return fmt.Sprintf("%q", c.writes)
		}
		return ""
	})
	endConduct()
	if len(c.writes) == 5 && vouched(c.writes[4]) {
		// It was recorded by itself, unless b was quick.
		c.writes = c.writes[:4]
	}
	// The last two come in any order: b takes the change only after it has read everything again.
	if last := c.writes[2:]; strings.Contains(last[0], `"staged":true`) {
		slices.Reverse(last)
	}
	c.wroteOnly("a takes", `"complete":true`, "b takes", `"staged":true`)
}
