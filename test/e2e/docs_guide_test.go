//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/env"
)

// inShell is a block of commands of a page.
var inShell = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

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
	page, err := os.ReadFile(filepath.Join(env.Root(), "docs", "guide", "safe-changes.md"))
	w.Must(err)
	text := strings.NewReplacer("namespace prod", "namespace "+w.NS, "-n prod", "-n "+w.NS, "after=staging", "after="+earlier.NS).Replace(string(page))
	commands, revision := 0, ""
	for _, block := range inShell.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
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
