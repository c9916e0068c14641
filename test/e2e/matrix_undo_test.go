//go:build e2e

package e2e

import (
	"testing"
	"time"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/test/gen"
)

// undoTools returns the tools that deploy after a rollback by hand.
func undoTools() []tool {
	forced := helm4
	// The image is kubectl's after the undo.
	forced.flags = []string{"--force-conflicts"}
	return []tool{applied("client-side"), flux(), argoCD("argo cd"), helm3.tool(), forced.tool()}
}

// Rule 21.3: the release that was undone is deployed again, by self-heal or by a pipeline. It brings back both halves.
func TestMatrixUndoAndDeployAgain(t *testing.T) {
	t.Parallel()
	undoneThenDeployed(t, "app:2")
}

// Rule 21.3: fixed code ends the hold of an undo that was about code, and takes the present configuration along.
func TestMatrixUndoAndFixedCode(t *testing.T) {
	t.Parallel()
	undoneThenDeployed(t, "app:3")
}

// undoneThenDeployed undoes a release of code and configuration, deploys an image with that configuration, and wants both.
func undoneThenDeployed(t *testing.T, image string) {
	for _, tool := range undoTools() {
		runBoth(t, tool, func(m *matrix, injection optin.Injection) {
			m.undone(release{image: "app:1", color: "A", injection: injection, settle: never},
				release{image: "app:2", color: "B", injection: injection, settle: never})
			next := release{image: image, color: "B", injection: injection}
			m.tool.deploy(m.world, next)
			m.rolledOut(next)
			m.noDrift(next)
			m.quiet()
		})
	}
}

// Rule 21.3: a faulty configuration that was rolled back stays out, whatever code is deployed, until the source changes.
func TestMatrixUndoNewCode(t *testing.T) {
	t.Parallel()
	for _, tool := range undoTools() {
		runBoth(t, tool, func(m *matrix, injection optin.Injection) {
			m.undone(release{image: "app:1", color: "A", injection: injection}, release{image: "app:1", color: "B", injection: injection})
			m.tool.deploy(m.world, release{image: "app:2", color: "B", injection: injection})
			m.rolledOut(release{image: "app:2", color: "A", injection: injection})
			m.WaitHeld("web", "web")
			fixed := release{image: "app:2", color: "C", injection: injection}
			m.tool.deploy(m.world, fixed)
			m.rolledOut(fixed)
			m.quiet()
		})
	}
}

// Rule 21.3: the same release changes no code, so a configuration that was rolled back stays out, however often it is deployed.
func TestMatrixUndoSameRelease(t *testing.T) {
	t.Parallel()
	for _, tool := range undoTools() {
		runBoth(t, tool, func(m *matrix, injection optin.Injection) {
			first := release{image: "app:1", color: "A", injection: injection}
			edited := release{image: "app:1", color: "B", injection: injection}
			m.undone(first, edited)
			m.again(edited)
			m.again(edited)
			m.WaitHeld("web", "web")
			m.waitReleased(first)
			m.quiet()
		})
	}
}

// undone deploys two releases and goes back from the second by kubectl rollout undo.
func (m *matrix) undone(first, second release) {
	m.Helper()
	for _, r := range []release{first, second} {
		m.tool.deploy(m.world, r)
		m.rolledOut(r)
	}
	m.Undo("web")
	m.WaitHeld("web", "web")
	m.rolledOut(first)
}

// Rule 21.3: what people do in the middle of an incident ends no hold, unless it touches what was undone.
func TestAnIncidentEndsNoHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("web", "color", "A"), deployment("web", envFrom("web"), gen.Annotated(keys.Settle, never)))
	a := w.WaitPinned("web", "web", "color", "A")
	w.Edit("web", "color", "B")
	w.Kubectl("set", "image", "deployment/web", "app=app:2")
	b := w.WaitPinned("web", "web", "color", "B")
	// With that settle time, a hold that ends would show only after the barriers. An undo keeps settings (rule 21.5).
	w.Kubectl("annotate", "deployment/web", keys.Settle+"-")
	w.Undo("web")
	w.WaitHeld("web", "web")
	for _, command := range [][]string{
		{"rollout", "restart", "deployment/web"},
		{"set", "resources", "deployment/web", "--limits=cpu=200m"},
		{"set", "env", "deployment/web", "LOG=debug"},
		{"scale", "deployment/web", "--replicas=2"},
	} {
		w.Kubectl(command...)
		w.Barrier()
		if got := w.PinOf("web", "web"); got != a {
			t.Fatalf("after %v the pin is %s, want %s", command, got, a)
		}
		w.WaitHeld("web", "web")
	}
	w.Kubectl("set", "image", "deployment/web", "app=app:3")
	if got := w.PinOf("web", "web"); got.Revision != b.Revision {
		t.Errorf("fixed code has %s, want %s", got, b)
	}
}

// Rule 21.2: an undo brings back what ran, and includes nothing that waits.
func TestAnUndoTakesAlongNothingThatWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("web", "color", "A"), deployment("web", envFrom("web"), gen.Annotated(keys.Advance, "on-deploy")))
	a := w.WaitPinned("web", "web", "color", "A")
	w.Edit("web", "color", "B")
	w.Kubectl("set", "image", "deployment/web", "app=app:2")
	w.WaitPinned("web", "web", "color", "B")
	w.Edit("web", "color", "C")
	w.WaitEvent("WaitingToAdvance", "web", "configmap/web")
	w.Undo("web")
	w.Barrier()
	if d := w.Deployment("web"); w.PinOf("web", "web") != a || d.Spec.Template.Spec.Containers[0].Image != "app:1" {
		t.Errorf("image %s with %s, want app:1 with %s", d.Spec.Template.Spec.Containers[0].Image, w.PinOf("web", "web"), a)
	}
	w.podsRead(a.Revision)
	w.Kubectl("set", "image", "deployment/web", "app=app:3")
	w.WaitPinned("web", "web", "color", "C")
}

// Rule 21.5: kubectl rollout undo restores the annotations of an old ReplicaSet. confrev's are kept as they were.
func TestAnUndoKeepsSettings(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	w.Kubectl("set", "image", "deployment/web", "app=app:2")
	w.editTo("B")
	w.Kubectl("annotate", "deployment/web", keys.Advance+"=manual", keys.Settle+"=1s")
	w.Undo("web", "--to-revision=1")
	w.WaitHeld("web", "web")
	d := w.Deployment("web")
	if d.Annotations[keys.Advance] != "manual" || d.Annotations[keys.Settle] != "1s" || w.PinOf("web", "web") != a {
		t.Errorf("pinned to %s, with %v", w.PinOf("web", "web"), d.Annotations)
	}
}

// Rule 21.2: content that never ran stays pending after an undo, and settles for its whole time again.
func TestSettlingStartsAgainWithAnUndo(t *testing.T) {
	t.Parallel()
	// Longer than two barriers take on a busy machine. The first one makes what the others use.
	const long = 2 * time.Minute
	w, a := deployed(t)
	w.Barrier()
	b := w.editTo("B")
	w.Kubectl("annotate", "deployment/web", keys.Settle+"="+long.String())
	w.Edit("web", "color", "C")
	// The part of the settle time that the undo is to revert.
	w.Barrier()
	if got := w.PinOf("web", "web"); got != b {
		t.Fatalf("pinned to %s before the undo: the machine is too slow for a settle time of %s", got, long)
	}
	undone := time.Now()
	w.Undo("web")
	w.Barrier()
	if got := w.PinOf("web", "web"); got != a {
		t.Errorf("after the undo it is pinned to %s, want %s", got, a)
	}
	w.WaitPinned("web", "web", "color", "C")
	// Whatever the machine does, this is never too short: confrev cannot have seen the undo before it was made.
	if waited := time.Since(undone); waited < long {
		t.Errorf("content that waits rolled out %s after the undo, want %s at least", waited, long)
	}
}
