//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/test/gen"
)

func injecting(injection optin.Injection) deploymentOption {
	return gen.Annotated(keys.Injection, string(injection))
}

// templateNames returns what the template of Deployment web names.
func (w *world) templateNames() string {
	w.Helper()
	var names []string
	for _, use := range podspec.Uses(&w.Deployment("web").Spec.Template.Spec) {
		names = append(names, use.Name)
	}
	return strings.Join(names, " ")
}

func (w *world) waitTemplateNames(want string) {
	w.Helper()
	w.Eventually("the template names "+want, func() string {
		if got := w.templateNames(); got != want {
			return "it names " + got
		}
		return w.NotRolledOut("web")
	})
}

// Injection template: the template itself names the revision. One rollout per edit, undo holds, revisions go.
func TestInjectionIntoTheTemplate(t *testing.T) {
	t.Parallel()
	w, a := deployed(t, injecting(optin.Template), gen.HistoryLimit(1), envKey("web", "color", false))
	w.waitTemplateNames(a.Revision)
	w.WaitOwned(a.Revision, "web")
	before := len(w.ReplicaSets("web"))
	b := w.editTo("B")
	w.waitTemplateNames(b.Revision)
	if got := w.ReplicaSets("web"); len(got) > before+1 {
		t.Errorf("an edit made %d ReplicaSets of %d", len(got), before)
	}
	w.podsRead(b.Revision)

	w.Undo("web")
	w.WaitHeld("web", "web")
	w.waitTemplateNames(a.Revision)
	w.Barrier()
	w.waitTemplateNames(a.Revision)

	c := w.editTo("C")
	w.waitTemplateNames(c.Revision)
	w.waitGone(b.Revision)
	again := w.editTo("A")
	if again.Revision != a.Revision {
		t.Errorf("A came back as %s", again)
	}
	w.waitTemplateNames(a.Revision)
}

// The user's manifest goes in again: the names come back, and pods read the pinned revision all the while.
func TestTemplateInjectionSurvivesReapply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := strings.Replace(manifest, "confrev.io/track: all", "confrev.io/track: all, confrev.io/injection: template", 1)
	w.KubectlIn(text, "apply", "-f", "-")
	a := w.WaitPinned("web", "web", "color", "A")
	w.waitTemplateNames(a.Revision)
	for range 3 {
		w.KubectlIn(text, "apply", "-f", "-")
		w.waitTemplateNames(a.Revision)
		if got := w.readers(); len(got) != 1 || got[a.Revision] == 0 {
			t.Errorf("pods read %v", got)
		}
	}
	if got := w.PinOf("web", "web"); got != a {
		t.Errorf("the pin is %s, want %s", got, a)
	}
}

// Switching the injection of a live workload: one rollout each way; opting out leaves everything as it is.
func TestSwitchingTheInjection(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	before := len(w.ReplicaSets("web"))
	w.Kubectl("annotate", "deployment", "web", keys.Injection+"=template")
	w.waitTemplateNames(a.Revision)
	w.Kubectl("annotate", "deployment", "web", keys.Injection+"=admission", "--overwrite")
	w.waitTemplateNames("web")
	w.podsRead(a.Revision)
	w.Barrier()
	if got := len(w.ReplicaSets("web")) - before; got != 1 {
		t.Errorf("%d new ReplicaSets, want 1: the one with the names", got)
	}
	w.Kubectl("annotate", "deployment", "web", keys.Injection+"=template", "--overwrite")
	w.waitTemplateNames(a.Revision)
	template := w.Deployment("web").Spec.Template
	w.Kubectl("annotate", "deployment", "web", keys.Track+"=none", "--overwrite")
	w.Edit("web", "color", "B")
	w.Barrier()
	w.waitTemplateNames(a.Revision)
	w.podsRead(a.Revision)
	w.WaitOwned(a.Revision, "web")
	if diff := cmp.Diff(template, w.Deployment("web").Spec.Template); diff != "" {
		t.Errorf("opting out changed the template (-before +after):\n%s", diff)
	}
}

// Switching from there to mode attach gives the names back with the pins.
func TestSwitchingFromInjectionToModeAttach(t *testing.T) {
	t.Parallel()
	w, a := deployed(t, injecting(optin.Template), gen.HistoryLimit(0))
	w.waitTemplateNames(a.Revision)
	w.Kubectl("annotate", "deployment", "web", keys.Mode+"=attach")
	w.waitTemplateNames("web")
	w.WaitEvent("Unpinned", "web", "the mode is attach")
	w.waitGone(a.Revision)
	w.Barrier()
	if w.Gone("web") {
		t.Error("the source went")
	}
}

// A container of a template with several sources, of which one is no longer tracked: its reference goes back.
func TestInjectionGivesBackWhatIsNoLongerTracked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("one", "k", "v"), configMap("web", "color", "A"),
		deployment("web", injecting(optin.Template), envFrom("web"), volume("one")))
	a := w.WaitPinned("web", "web", "color", "A")
	one := w.WaitPinned("web", "one", "k", "v")
	w.waitTemplateNames(fmt.Sprintf("%s %s", one.Revision, a.Revision))
	w.Kubectl("annotate", "deployment", "web", keys.Track+"=configmap/web", "--overwrite")
	w.Barrier()
	w.waitTemplateNames(fmt.Sprintf("%s %s", one.Revision, a.Revision))
	b := w.editTo("B")
	w.waitTemplateNames(fmt.Sprintf("one %s", b.Revision))
}
