//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/test/gen"
)

// noProgress does what noMorePods does, and makes those of the given names fail after a few seconds of it. Only then: on a busy machine, a rollout
// that goes well takes as long, so before and after they have the deadline that Kubernetes gives.
func (w *world) noProgress(names ...string) (end func()) {
	w.Helper()
	deadline := func(seconds int) {
		w.Helper()
		for _, name := range names {
			w.Kubectl("patch", "deployment/"+name, "-p", fmt.Sprintf(`{"spec":{"progressDeadlineSeconds":%d}}`, seconds))
		}
	}
	more := w.noMorePods()
	deadline(5)
	// One that its controller has not seen is not well, and cannot fail (rule 40).
	w.areRolledOut(names...)
	return func() {
		deadline(600)
		more()
	}
}

// goesBack waits until a Deployment has a pin, and its controller has rolled it out.
func (w *world) goesBack(name string, to pin.Pin) {
	w.Helper()
	w.Eventually(name+" goes back", func() string {
		if p := w.PinOf(name, "shared"); p != to {
			return "it has " + p.String()
		}
		return ""
	})
	w.areRolledOut(name)
}

// Rule 40: a change that fails in the first wave stops, is rolled back there, and never comes back; its repair goes through all waves.
func TestAFailureIsUndone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := []string{"a", "b", "c"}
	first := w.fleet(map[string]string{keys.Steps: "1", keys.OnFailure: "undo"}, names...)
	end := w.noProgress("a")
	w.Edit("shared", "color", "broken")
	// Not looked at while a has it: it goes back within seconds.
	bad := pin.Pin{Revision: trueName("shared", "color", "broken"), Number: 2}
	w.WaitEvent("ChangeFailed", "a", "revision 2 of configmap/shared failed: it exceeded its progress deadline")
	w.goesBack("a", first)
	w.WaitEvent("RolledBack", "a", "Rolled configmap/shared back from revision "+bad.String()+" to "+first.String())
	w.WaitEvent("ChangeStopped", "b", "configmap/shared changed, and the change was stopped: it waits until a person resumes it (deployment/a failed with it)")
	w.confrev("status", "configmap/shared").ends(4, "revision 2 is Stopped", "deployment/a failed with it; to continue anyway: kubectl confrev resume configmap/shared")
	end()

	// Whatever happens, the same content does not advance again.
	w.Kubectl("rollout", "restart", "deployment/a", "deployment/b")
	w.Kubectl("set", "image", "deployment/a", "deployment/c", "app=app:2")
	w.Kubectl("label", "configmap/shared", "touched=1")
	w.Barrier()
	if have := w.have(first, names...); len(have) > 0 {
		t.Errorf("%v have the change", have)
	}
	w.areRolledOut(names...)
	w.Edit("shared", "color", "repaired")
	w.Eventually("the repair is everywhere", func() string {
		for _, name := range names {
			if p := w.PinOf(name, "shared"); p.Number != 3 {
				return name + " has " + p.String()
			}
		}
		return ""
	})
	w.Eventually("it is complete", func() string {
		if s := w.spreads(); s.State != view.Complete || s.Vouched != 3 {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
}

// Rule 40: with undo-all, everyone who has the change goes back. A person may continue anyway.
func TestAFailureIsUndoneEverywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := []string{"a", "b", "c"}
	first := w.fleet(map[string]string{keys.Steps: "1,2", keys.OnFailure: "undo-all", keys.Bake: "1h"}, names...)
	w.Edit("shared", "color", "B")
	w.allHave(first, "a")
	w.areRolledOut("a")
	end := w.noProgress("b")
	// Not earlier: b is not to take the change while there are pods for it.
	w.Kubectl("annotate", "configmap/shared", keys.Bake+"=1s", "--overwrite")
	w.WaitEvent("ChangeFailed", "b", "revision 2 of configmap/shared failed")
	w.Eventually("both go back", func() string { return strings.Join(w.have(first, names...), " ") })
	end()
	w.areRolledOut(names...)
	w.confrev("status", "configmap/shared").ends(4, "deployment/b failed with it")
	if s := w.spreads(); !strings.HasPrefix(s.Message, "deployment/b failed with it") {
		t.Errorf("what was rolled back counts as a failure: %s", s.Message)
	}

	w.confrev("resume", "configmap/shared").says("revision 2 of configmap/shared continues; to watch: kubectl confrev status configmap/shared -n " + w.NS + " -w")
	w.Eventually("it is complete", func() string {
		if s := w.spreads(); s.State != view.Complete || s.Vouched != 3 {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	if p := w.PinOf("a", "shared"); p.Number != 2 {
		t.Errorf("the change has become another: a has %s", p)
	}
}

// Rule 40: ending a stop frees the workloads that confrev rolled back, and only those. One that fails again stops the change again.
func TestResumeFreesWhatConfrevRolledBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.fleet(map[string]string{keys.OnFailure: "undo", keys.StopAfter: "2"}, "a", "b")
	// Not b, which is to be rolled back by a person, and not by confrev.
	end := w.noProgress("a")
	w.Edit("shared", "color", "B")
	w.allHave(first, "a", "b")
	w.Eventually("there is something to undo", func() string {
		if sets := w.ReplicaSets("b"); len(sets) < 2 {
			return fmt.Sprintf("b has %d ReplicaSets", len(sets))
		}
		return ""
	})
	w.Undo("b")
	w.goesBack("a", first)
	w.Kubectl("annotate", "configmap/shared", keys.StopAfter+"=1", "--overwrite")
	w.confrev("resume", "configmap/shared").says("continues", "rolled back by someone, and without it until you resume each: deployment/b (kubectl confrev resume deployment/b -n "+w.NS+")")
	w.Eventually("a takes it again, fails again, and goes back again", func() string {
		if s := w.spreads(); s.State != view.Stopped || len(w.have(first, "a")) > 0 || !strings.Contains(w.Deployment("a").Annotations[keys.Held], ";stop=2@") {
			return fmt.Sprintf("%+v, noted %s", s, w.Deployment("a").Annotations[keys.Held])
		}
		return ""
	})
	end()
	w.areRolledOut("a", "b")
	w.confrev("resume", "configmap/shared").ends(0, "deployment/b (kubectl")
	w.allHave(first, "a")
	w.areRolledOut("a")
	// What a person rolls back stays, although the stop is over.
	w.Undo("a")
	w.WaitHeld("a", "shared")
	w.Barrier()
	w.Kubectl("label", "configmap/shared", "touched=1")
	w.Barrier()
	if have := w.have(first, "a", "b"); len(have) > 0 {
		t.Errorf("%v have the change", have)
	}
}

// Rule 40: where the setting says stop, no one else gets the change, and what has it keeps it.
func TestAFailureStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.fleet(map[string]string{keys.MaxRolling: "1", keys.OnFailure: "stop"}, "a", "b")
	end := w.noProgress("a")
	w.Edit("shared", "color", "B")
	w.allHave(first, "a")
	w.WaitEvent("ChangeFailed", "a", "It stays here.")
	end()
	w.areRolledOut("a")
	w.Barrier()
	if have := w.have(first, "a", "b"); !slices.Equal(have, []string{"a"}) {
		t.Errorf("%v have the change", have)
	}
	w.confrev("advance", "deployment/b").says("unchanged", "deployment/a failed with it", "to continue: kubectl confrev resume configmap/shared")
	w.confrev("resume", "configmap/shared")
	w.allHave(first, "a", "b")
	// The same content is another change when it comes back: that someone continued it once says nothing.
	w.Edit("shared", "color", "C")
	w.Eventually("both have the next change", func() string {
		for _, name := range []string{"a", "b"} {
			if p := w.PinOf(name, "shared"); p.Number != 3 {
				return name + " has " + p.String()
			}
		}
		return ""
	})
	w.areRolledOut("a", "b")
	end = w.noProgress("a")
	w.Edit("shared", "color", "B")
	w.Eventually("it is stopped again", func() string {
		if s := w.spreads(); s.State != view.Stopped || s.Revision.Number != 4 {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	end()
}

// Rule 40: a person who rolls back a change alone stops it for the others; one who rolls back code as well does not.
func TestAnUndoByAPersonIsAFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.fleet(map[string]string{keys.Steps: "1", keys.OnFailure: "stop", keys.Bake: "1h"}, "a", "b")
	w.Edit("shared", "color", "B")
	w.allHave(first, "a")
	w.areRolledOut("a")
	w.Undo("a")
	w.WaitHeld("a", "shared")
	w.WaitEvent("ChangeFailed", "a", "revision 2 of configmap/shared failed")
	// Its controller counts what it has seen.
	w.areRolledOut("a")
	w.Edit("shared", "color", "C")
	w.allHave(first, "a")
	w.areRolledOut("a")
	w.Kubectl("set", "image", "deployment/a", "app=app:2")
	w.areRolledOut("a")
	// The first template has been rolled out as revisions 1 and 3.
	w.Undo("a", "--to-revision=3")
	w.WaitHeld("a", "shared")
	w.Barrier()
	if s := w.spreads(); s.State == view.Stopped {
		t.Errorf("an undo of the code stopped the change: %+v", s)
	}
}

// Rule 40: what was there before a change that fails is gone with the history that the user does not keep. That it cannot be undone is said, and
// a repair still gets through.
func TestAnUndoWithoutTheEarlierRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := configMap("shared", "color", "A")
	source.Annotations = map[string]string{keys.OnFailure: "undo"}
	w.Create(source, deployment("a", envFrom("shared"), gen.HistoryLimit(0), gen.Annotated(keys.Analysis, "smoke")))
	first := w.WaitPinned("a", "shared", "color", "A")
	w.areRolledOut("a")
	w.Edit("shared", "color", "broken")
	w.allHave(first, "a")
	bad := w.PinOf("a", "shared")
	w.waitGone(first.Revision)
	w.measures(fails + "\n          parallelism: 0")
	w.WaitEvent("ChangeFailed", "a", "revision 2 of configmap/shared failed: its analysis smoke failed.")
	w.WaitEvent("NotRolledBack", "a", "revision 2 of configmap/shared is not rolled back here: revision "+first.Revision+", which the workload had before, no longer exists")
	w.Barrier()
	if p := w.PinOf("a", "shared"); p != bad {
		t.Errorf("a has %s", p)
	}
	w.measures(succeeds)
	w.Edit("shared", "color", "repaired")
	w.allHave(bad, "a")
}

// Rules 37 and 40: a Deployment that a person pauses in the middle of the change does not fail, however long that lasts. It continues when they resume it.
func TestAPauseInTheMiddleIsNoFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.fleet(map[string]string{keys.OnFailure: "stop"}, "paused", "stuck")
	end := w.noMorePods()
	w.Edit("shared", "color", "B")
	w.allHave(first, "paused", "stuck")
	w.Kubectl("rollout", "pause", "deployment/paused")
	w.membersAre(map[string]string{"deployment/paused": "Parked: it is paused (spec.paused)", "deployment/stuck": "Rolling"})
	// The one that fails shows that the time of the other is over, too.
	w.Kubectl("annotate", "deployment/paused", keys.Deadline+"=1s")
	w.Kubectl("annotate", "deployment/stuck", keys.Deadline+"=1s")
	w.WaitEvent("ChangeFailed", "stuck", "revision 2 of configmap/shared failed")
	if s := w.spreads(); !strings.HasPrefix(s.Message, "deployment/stuck failed with it") {
		t.Errorf("%+v", s)
	}
	w.Kubectl("annotate", "deployment/paused", keys.Deadline+"-")
	end()
	w.Kubectl("rollout", "resume", "deployment/paused")
	w.confrev("resume", "configmap/shared").ends(0, "continues")
	w.Eventually("it is complete", func() string {
		if s := w.spreads(); s.State != view.Complete || s.Vouched != 2 {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
}
