//go:build e2e

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/keys"
)

// Every command of docs/guide/safe-changes.md does something that works, from the first to the last, in a namespace that comes after another.
func TestCommandsOfTheGuideToSafeChanges(t *testing.T) {
	t.Parallel()
	earlier, w := newStages(t)
	earlier.Create(configMap("app", "color", "A"), deployment("shop", envFrom("app")))
	w.Create(configMap("app", "color", "A"), deployment("shop", envFrom("app")), deployment("internal-tools", envFrom("app")))
	for _, name := range []string{"shop", "internal-tools"} {
		w.WaitPinned(name, "app", "color", "A")
	}
	w.areRolledOut("shop", "internal-tools")
	names := strings.NewReplacer("namespace prod", "namespace "+w.NS, "-n prod", "-n "+w.NS, "after=staging", "after="+earlier.NS)
	commands, revision := 0, ""
	for _, block := range runsOf(t, "docs/guide/safe-changes.md") {
		for line := range strings.Lines(names.Replace(block.text)) {
			if strings.HasPrefix(line, "revision=") {
				revision = line
			}
			if strings.Contains(line, "--past-stage") {
				// The section before stopped it.
				w.confrev("resume", "configmap/app").ends(0)
			}
			commands++
			if got := w.runIn("", "", "sh", "-ec", revision+line); got.status != 0 || got.stdout == "" && !strings.HasPrefix(line, "revision=") {
				t.Errorf("%s: status %d\n%s%s", line, got.status, got.stdout, got.stderr)
			}
		}
	}
	if commands < 9 {
		t.Errorf("found only %d commands: the test reads the page wrongly", commands)
	}
	// What it wrote by hand is what the commands write.
	name := w.PinOf("shop", "app").String()
	source := &corev1.ConfigMap{}
	if w.Must(w.Get("app", source)); source.Annotations[keys.Passed] != name+";wave=1" {
		t.Errorf("the source has %v", source.Annotations)
	}
}
