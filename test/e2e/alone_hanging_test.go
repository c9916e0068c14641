//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"confrev.io/confrev/test/env"
)

// hang suspends confrev: it accepts connections and answers none. The function that it returns, and the test's end, let it continue.
func hang(t *testing.T) (goOn func()) {
	t.Helper()
	if err := env.Suspend(confrev.PID()); err != nil {
		t.Fatal(err)
	}
	goOn = func() {
		if err := env.Resume(confrev.PID()); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(goOn)
	return goOn
}

// Rule 18: a confrev that hangs refuses no connection, so the API server waits for it as long as the chart says, which is not
// long: workloads then pass and are repaired, and pods that carry pins are refused. Not parallel.
func TestAWebhookThatHangs(t *testing.T) {
	w := newWorld(t)
	reinstallAfter(t)
	byDefault := slices.DeleteFunc(slices.Clone(chartValues), func(value string) bool { return strings.HasPrefix(value, "webhook.timeoutSeconds=") })
	// Before API servers wait for a second only, which is little for confrev with the race detector.
	w.Create(configMap("web", "color", "A"), configMap("late", "k", "v"), deployment("web", envFrom("web")))
	a := w.WaitPinned("web", "web", "color", "A")
	w.Must(cluster.Install(w.Ctx, append(byDefault, "podAdmission=webhook")...))
	w.waitPodAdmission("webhook")
	w.podsRead(a.Revision)

	goOn := hang(t)
	began := time.Now()
	w.Create(deployment("late", envFrom("late")))
	t.Logf("a Deployment was created %s after it was asked for", time.Since(began).Round(time.Millisecond))
	if got := w.PinsText("late"); got != "" {
		t.Errorf("a confrev that hangs pinned it: %s", got)
	}
	w.Eventually("it rolls out without confrev", func() string { return w.NotRolledOut("late") })
	set := w.ReplicaSets("web")[0].Name
	w.Kubectl("delete", "pod", "-l", "app=web", "--wait=true")
	var refusals []string
	w.Eventually("its pod is refused", func() string {
		notes := w.Events("FailedCreate", set)
		refusals = slices.DeleteFunc(slices.Clone(notes), func(note string) bool {
			return !strings.Contains(note, `failed calling webhook "resolve-pins.confrev.io"`)
		})
		if len(refusals) == 0 {
			return fmt.Sprintf("the events are %q", notes)
		}
		return ""
	})
	waited := func(note string) bool {
		return strings.Contains(note, "deadline exceeded") || strings.Contains(note, "Timeout")
	}
	if !slices.ContainsFunc(refusals, waited) {
		t.Errorf("it was refused, but not after waiting: %q", refusals)
	}
	if got := w.readers(); len(got) > 0 {
		t.Errorf("pods that carry pins started: %v", got)
	}

	goOn()
	w.WaitPinned("late", "late", "k", "v")
	w.podsRead(a.Revision)
	w.Barrier()
	w.onlyReplicaSets("web", 1)
}
