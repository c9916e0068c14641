//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"confrev.io/confrev/internal/keys"
)

// Before a change is made, preview shows how it would spread, and how long that takes at least.
func TestPreviewShowsHowAChangeSpreads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fleet(map[string]string{keys.Steps: "1", keys.MaxRolling: "1", keys.Bake: "5m"}, "a", "b", "c")
	const edited = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"shared"},"data":{"color":"B"}}`
	got := w.runIn("", edited, "kubectl", "confrev", "preview", "-f", "-")
	const want = "note: the change to configmap/shared reaches 3 workloads in 2 waves (1, 2), at most 1 at a time, and takes at least 15m0s"
	if got.status != 0 || !strings.Contains(got.stderr, want) {
		t.Errorf("status %d\n%s%s", got.status, got.stdout, got.stderr)
	}
	got = w.runIn("", edited, "kubectl", "confrev", "preview", "-f", "-", "-o", "json")
	if got.status != 0 || !strings.Contains(got.stdout, `"atLeast": "15m0s"`) || !strings.Contains(got.stdout, `"maxRolling": 1`) {
		t.Errorf("status %d\n%s%s", got.status, got.stdout, got.stderr)
	}
}
