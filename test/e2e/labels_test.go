//go:build e2e

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
)

// Rule 21.5: labels of the workload say the same as its annotations, also in a request that changes nothing but the label, and
// an undo leaves them as they are.
func TestLabelsOfAWorkloadCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(configMap("web", "color", "A"), deployment("web", envFrom("web"), untracked()))
	w.barrier()
	if pins := w.pinsText("web"); pins != "" {
		t.Fatalf("pinned to %s without opting in", pins)
	}
	w.kubectl("label", "deployment/web", keys.Track+"=all")
	if w.pinOf("web", "web") == (pin.Pin{}) {
		t.Error("the request that adds the label pins nothing")
	}
	a := w.waitPinned("web", "web", "color", "A")

	w.kubectl("label", "deployment/web", keys.Advance+"=manual")
	w.edit("web", "color", "B")
	w.waitEvent("WaitingToAdvance", "web", "configmap/web")
	w.kubectl("set", "image", "deployment/web", "app=app:2")
	w.barrier()
	if got := w.pinOf("web", "web"); got != a {
		t.Errorf("with the label manual, the pin moved to %s", got)
	}
	w.kubectl("label", "deployment/web", keys.Advance+"-")
	w.waitPinned("web", "web", "color", "B")

	w.undo("web", "--to-revision="+w.rolloutRevision("web", a))
	w.waitHeld("web", "web")
	if labels := w.deployment("web").Labels; labels[keys.Track] != "all" {
		t.Errorf("the undo leaves the labels %v", labels)
	}
	w.edit("web", "color", "C")
	c := w.waitPinned("web", "web", "color", "C")

	w.kubectl("label", "--overwrite", "deployment/web", keys.Track+"=none")
	w.kubectl("annotate", "deployment/web", keys.Track+"=all")
	w.edit("web", "color", "D")
	w.barrier()
	if got := w.pinOf("web", "web"); got != c {
		t.Errorf("with the label none, the pin is %s, want %s", got, c)
	}
}

// The label of a source is only a convenience: where something keeps taking it away, confrev leaves it at that, and rolls out as ever.
func TestALabelThatIsTakenAwayIsGivenUp(t *testing.T) {
	t.Parallel()
	w, _ := deployed(t)
	labelled := func() bool {
		cm := &corev1.ConfigMap{}
		w.must(w.get("web", cm))
		return cm.Labels[keys.Source] != ""
	}
	for range plan.MaxReverts {
		w.eventually("the source is labelled", func() string {
			if !labelled() {
				return "it is not"
			}
			return ""
		})
		w.kubectl("label", "configmap/web", keys.Source+"-")
	}
	w.barrier()
	if labelled() {
		t.Error("the label was taken away three times, and is there again")
	}
	w.editTo("B")
	w.barrier()
	if labelled() {
		t.Error("with another change of the source, the label is there again")
	}
}
