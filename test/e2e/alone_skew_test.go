//go:build e2e

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"confrev.io/confrev/internal/pin"
)

// A plugin and a controller that are one version apart understand each other: what one writes, the other reads, and acts upon. To exchange
// the controller rolls out nothing. Not parallel: the controller is exchanged.
func TestPluginOneVersionApart(t *testing.T) {
	programs, err := cluster.BuildPrevious(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w, _ := deployed(t)
	b := w.editTo("B")
	previous := filepath.Join(programs, "kubectl-confrev")
	w.understands(previous, "B", "C")

	stop(t)
	controller, err := cluster.Confrev(w.Ctx, "previous", filepath.Join(programs, "confrev"), "--settle", settle.String(), "--grace", grace.String(),
		"--secrets", "--revisions-per-hour", "1000", "--rollouts-per-hour", "1000")
	w.Must(err)
	before := w.Deployment("web").Generation
	w.Must(controller.Start(w.Ctx))
	defer func() { w.Must(controller.Stop()) }()
	w.Must(cluster.WaitWebhook(w.Ctx))
	w.Barrier()
	if after := w.Deployment("web").Generation; after != before {
		t.Errorf("the previous controller changed the Deployment: generation %d, then %d", before, after)
	}
	if w.PinOf("web", "web") == b {
		t.Error("the story did not continue: this shows nothing")
	}
	w.understands("kubectl-confrev", "C", "D")
}

// understands has a plugin read what the controller did, go back to the configuration before, and forward to a later one.
func (w *world) understands(plugin, now, next string) {
	w.Helper()
	run := func(status int, want []string, args ...string) string {
		w.Helper()
		got := w.runIn("", "", append([]string{plugin}, args...)...)
		if got.status != status {
			w.Fatalf("%s %s: status %d\n%s%s", plugin, strings.Join(args, " "), got.status, got.stdout, got.stderr)
		}
		for _, text := range want {
			if !strings.Contains(got.stdout, text) {
				w.Errorf("%s %s does not say %q:\n%s", plugin, strings.Join(args, " "), text, got.stdout)
			}
		}
		return got.stdout
	}
	w.Eventually(now+" is rolled out", func() string { return w.NotRolledOut("web") })
	pinned := w.PinOf("web", "web")
	label := pinned.Revision
	run(0, []string{label}, "status", "deployment/web", "-o", "json")
	run(0, []string{label}, "history", "deployment/web", "-o", "json")
	run(0, []string{"deployment", "web"}, "uses", "configmap/web", "-o", "json")

	run(0, []string{"deployment.apps/web"}, "undo", "deployment/web")
	w.WaitHeld("web", "web")
	held := w.PinOf("web", "web")
	if held == pinned {
		w.Errorf("undo left the pin at %s", pinned)
	}
	w.Eventually("the undo is rolled out", func() string { return w.NotRolledOut("web") })
	if status := run(3, []string{held.Revision}, "status", "deployment/web", "-o", "json"); !strings.Contains(status, `"held"`) && !strings.Contains(status, "Held") {
		w.Errorf("the hold is not shown:\n%s", status)
	}
	run(0, []string{"deployment.apps/web resumed"}, "resume", "deployment/web")
	var resumed pin.Pin
	w.Eventually("it is at "+now+" again", func() string {
		if resumed = w.PinOf("web", "web"); resumed.Revision != pinned.Revision {
			return "pinned to " + resumed.String()
		}
		return ""
	})
	w.editTo(next)
}
