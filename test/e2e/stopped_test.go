//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/gen"
)

// startsWith checks that a Deployment got a pin as its first one, and keeps it.
func (w *world) startsWith(name string, want pin.Pin) {
	w.Helper()
	w.Eventually(name+" is pinned", func() string {
		if w.PinOf(name, "shared") == (pin.Pin{}) {
			return "it is not"
		}
		return ""
	})
	w.Barrier()
	if got := w.PinOf(name, "shared"); got != want {
		w.Errorf("%s started with %s, want %s", name, got, want)
	}
}

// manifest returns a Deployment as kubectl takes it.
func (w *world) manifest(d *appsv1.Deployment) string {
	w.Helper()
	d.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}
	text, err := json.Marshal(d)
	w.Must(err)
	return string(text)
}

// Rule 39: while a change is stopped, a workload that has no pin yet gets what others work with: one that is new, and one that confrev did not
// follow before. With the others, it gets the change when that is resumed.
func TestAFirstPinWhileAChangeIsStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(deployment("later", envFrom("shared"), gen.Untracked))
	oldest := w.fleet(nil, "a")
	w.Edit("shared", "color", "B")
	first := w.WaitPinned("a", "shared", "color", "B")
	w.areRolledOut("a")
	w.Kubectl("annotate", "deployment/a", keys.Settle+"=1h")
	w.Edit("shared", "extra", "B")
	w.confrev("stop", "configmap/shared").ends(0)
	w.Barrier()
	w.Kubectl("annotate", "deployment/a", keys.Settle+"-")
	w.WaitEvent("ChangeStopped", "a", "configmap/shared")
	w.Create(deployment("new", envFrom("shared")))
	w.startsWith("new", first)
	w.WaitEvent("ChangeStopped", "new", "configmap/shared changed, and the change was stopped")
	got := w.runIn("", w.manifest(deployment("soon", envFrom("shared"))), "kubectl", "confrev", "preview", "-f", "-")
	if !strings.Contains(got.stdout, "configmap/shared: waits at revision 2 until a person resumes it") || strings.Contains(got.stdout+got.stderr, "did not answer") {
		t.Errorf("preview says %s%s", got.stdout, got.stderr)
	}
	w.Kubectl("annotate", "deployment/later", keys.Track+"=all", "--overwrite")
	w.startsWith("later", first)
	// What others work with lacks a key that this one requires, so its pods could not start.
	created := w.runIn("", w.manifest(deployment("needs", envKey("shared", "extra", false))), "kubectl", "create", "-f", "-")
	if !strings.Contains(created.stderr, "but the workload gets it: it had no revision yet, and no other is known to work") {
		t.Errorf("who creates it is told %s", created.stderr)
	}
	w.startsWith("needs", pin.Pin{Revision: w.spreads().Revision.Name, Number: 3})
	// A pin that the user chose is one that passes over the present content, whether that is stopped or not (rule 21.1).
	w.Create(deployment("chosen", envFrom("shared"), gen.Pinned("configmap/shared="+oldest.String())))
	w.WaitHeld("chosen", "shared")
	w.confrev("resume", "configmap/shared").ends(0)
	w.allHave(first, "a", "new", "later")
	w.startsWith("chosen", oldest)
}

// Rule 39: the same after a change that failed.
func TestAFirstPinAfterAFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.fleet(map[string]string{keys.OnFailure: "undo"}, "a")
	end := w.noProgress("a")
	w.Edit("shared", "color", "broken")
	w.allHave(first, "a")
	w.WaitEvent("ChangeFailed", "a", "revision 2 of configmap/shared failed")
	w.goesBack("a", first)
	end()
	// Only what has rolled out is known to work, and confrev may look at it a moment later.
	w.areRolledOut("a")
	w.Barrier()
	w.Create(deployment("new", envFrom("shared")))
	w.startsWith("new", first)
	w.areRolledOut("new")
}
