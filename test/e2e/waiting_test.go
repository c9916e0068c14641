//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/internal/waiting"
	"confrev.io/confrev/test/gen"
)

// inAnHour returns a time in the form of confrev.io/freeze-until.
func inAnHour() string { return time.Now().Add(time.Hour).UTC().Format(time.RFC3339) }

// waits returns what status says that a source of Deployment web waits for; nil if it does not wait.
func (w *world) waits(source string) *view.WaitsFor {
	w.Helper()
	var status view.StatusList
	w.Must(json.Unmarshal([]byte(w.plugin("status", "deployment/web", "-o", "json").stdout), &status))
	for _, s := range status.Items[0].Sources {
		if s.Source == source {
			return s.WaitsFor
		}
	}
	w.Fatalf("status has no %s: %+v", source, status)
	return nil
}

// Rules 32 and 34: what is frozen on a source does not advance, not even in a deploy; a first pin, an undo and a person pass.
func TestAFrozenSource(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	until := inAnHour()
	w.Kubectl("annotate", "configmap/web", keys.FreezeUntil+"="+until)
	w.Edit("web", "color", "B")
	w.WaitEvent("WaitingToAdvance", "web", "configmap/web changed, and waits until "+until+" (annotation confrev.io/freeze-until of configmap/web)")
	if s := w.waits("configmap/web"); s == nil || s.Reason != waiting.Frozen || s.Until == nil || s.Until.UTC().Format(time.RFC3339) != until {
		t.Errorf("status says %+v", s)
	}

	w.Kubectl("set", "image", "deployment/web", "app=app:2")
	w.Barrier()
	if got := w.PinOf("web", "web"); got != a {
		t.Errorf("a deploy moved the pin to %s", got)
	}
	// A deploy is told so. A dry run has the same warnings.
	warned := w.runIn("", "", "kubectl", "set", "image", "deployment/web", "app=app:3", "--dry-run=server").stderr
	if !strings.Contains(warned, "configmap/web changed, and waits until "+until) {
		t.Errorf("the deploy is told %q", warned)
	}

	// Another workload gets its first pin at once, of the present content.
	w.Create(deployment("late", envFrom("web")))
	b := w.WaitPinned("late", "web", "color", "B")

	w.confrev("advance", "deployment/web", "configmap/web").says("configmap/web: revision 1 -> 2")
	if got := w.PinOf("web", "web"); got.Revision != b.Revision {
		t.Errorf("advanced by hand, the pin is %s, want %s", got, b)
	}
	// Until there is a ReplicaSet with B, an undo goes back from one with A to another one.
	w.WaitPinned("web", "web", "color", "B")
	w.Undo("web")
	w.WaitHeld("web", "web")
	if got := w.PinOf("web", "web"); got != a {
		t.Errorf("after an undo, the pin is %s, want %s", got, a)
	}
}

// Rule 34: when a freeze ends, what changed meanwhile is one rollout, without anything that wakes confrev. Sources that change together
// wait together.
func TestTheEndOfAFreeze(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("web", "color", "A"), configMap("more", "k", "A"), deployment("web", envFrom("web", "more")))
	w.WaitPinned("web", "web", "color", "A")
	w.WaitPinned("web", "more", "k", "A")
	before := w.Pins("web")
	w.Kubectl("annotate", "configmap/web", keys.FreezeUntil+"="+inAnHour())
	for color := range strings.SplitSeq("BCDEFG", "") {
		w.Edit("web", "color", color)
	}
	w.Edit("more", "k", "B")
	w.WaitEvent("WaitingToAdvance", "web", "configmap/more changed, and waits until")
	w.Barrier()
	if got := w.Pins("web"); got.String() != before.String() {
		t.Fatalf("pins moved to %s", got)
	}
	ends := time.Now().Add(5 * time.Second).UTC().Truncate(time.Second)
	w.Kubectl("annotate", "--overwrite", "configmap/web", keys.FreezeUntil+"="+ends.Format(time.RFC3339))
	w.WaitPinned("web", "web", "color", "G")
	if now := time.Now(); now.Before(ends) {
		t.Errorf("the pin moved %s before the freeze ended", ends.Sub(now))
	}
	w.WaitPinned("web", "more", "k", "B")
	w.Barrier()
	w.onlyReplicaSets("web", 2)
	if n := len(w.Revisions("web")); n != 2 {
		t.Errorf("there are %d revisions of web, want those of A and G", n)
	}
}

// Rules 33 and 34: the settings of a namespace are those of all its sources, and count for every kind and mode.
func TestANamespaceThatIsFrozen(t *testing.T) {
	forEachKind(t, func(w *world, s subject) {
		a, first := w.launch(s, "web")
		// Long before the edit: confrev watches namespaces by themselves.
		w.Kubectl("annotate", "namespace", w.NS, keys.FreezeUntil+"="+inAnHour())
		w.Create(deployment("restarts", gen.Annotated(keys.Mode, "restart"), envFrom("web-conf")))
		w.waitFollowed("restarts", "configmap/web-conf")
		generation := w.Deployment("restarts").Generation
		a.Edit(a.conf, sourceKey, "B")
		a.WaitEvent("WaitingToAdvance", "web", "of the namespace")
		w.WaitEvent("WaitingToAdvance", "restarts", "of the namespace")
		if got := a.pinned(); got.revisions() != first.revisions() {
			w.Errorf("the pin moved to %s", got)
		}
		w.Kubectl("annotate", "namespace", w.NS, keys.FreezeUntil+"-")
		w.Eventually("it advances", func() string {
			if a.pinned().revisions() == first.revisions() {
				return "not yet"
			}
			return ""
		})
		w.Eventually("the other restarts", func() string {
			if w.Deployment("restarts").Generation == generation {
				return "not yet"
			}
			return ""
		})
	})
}

// Rule 33: a restart is no deploy, and only the source that says so waits for one.
func TestASourceThatWaitsForADeploy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("web", "color", "A"), configMap("more", "k", "A"), deployment("web", envFrom("web", "more")))
	a := w.WaitPinned("web", "web", "color", "A")
	w.Kubectl("annotate", "configmap/web", keys.Advance+"=on-deploy")
	w.Edit("web", "color", "B")
	w.WaitEvent("WaitingToAdvance", "web", "configmap/web changed, and waits for a deploy")
	w.Edit("more", "k", "B")
	w.WaitPinned("web", "more", "k", "B")
	w.Kubectl("rollout", "restart", "deployment/web")
	w.Barrier()
	if got := w.PinOf("web", "web"); got != a {
		t.Errorf("a restart moved the pin to %s", got)
	}
	w.Kubectl("set", "image", "deployment/web", "app=app:2")
	if got := w.PinOf("web", "web"); got == a {
		t.Error("the deploy did not move the pin within its request")
	}
	w.WaitPinned("web", "web", "color", "B")
}

// A setting that cannot be read makes everything wait, on each object on which it can be.
func TestASettingThatCannotBeReadWaits(t *testing.T) {
	t.Parallel()
	for what, object := range map[string]string{"the workload": "deployment/web", "the source": "configmap/web", "the namespace": ""} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w, a := deployed(t)
			if object == "" {
				object = "namespace/" + w.NS
			}
			w.Kubectl("annotate", object, keys.Window+"=0 9 * * 1-5 8h Berlin")
			w.WaitEvent("InvalidWindow", "web", `"Berlin" is not a time zone such as Europe/Berlin; until it is corrected, nothing advances`)
			w.Edit("web", "color", "B")
			// Not with a barrier, which waits too in such a namespace.
			w.WaitEvent("WaitingToAdvance", "web", "is corrected, which cannot be read")
			if got := w.PinOf("web", "web"); got != a {
				t.Errorf("the pin moved to %s", got)
			}
			w.Kubectl("annotate", "--overwrite", object, keys.Window+"=* * * * * 1m Europe/Berlin")
			w.WaitPinned("web", "web", "color", "B")
		})
	}
}
