//go:build e2e

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/test/gen"
)

// Rule 21.5: labels of the workload say the same as its annotations, also in a request that changes nothing but the label, and
// an undo leaves them as they are.
func TestLabelsSetWhatAnnotationsSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("web", "color", "A"), deployment("web", envFrom("web"), gen.Untracked))
	w.Barrier()
	if pins := w.PinsText("web"); pins != "" {
		t.Fatalf("pinned to %s without opting in", pins)
	}
	w.Kubectl("label", "deployment/web", keys.Track+"=all")
	if w.PinOf("web", "web") == (pin.Pin{}) {
		t.Error("the request that adds the label pins nothing")
	}
	a := w.WaitPinned("web", "web", "color", "A")

	w.Kubectl("label", "deployment/web", keys.Advance+"=manual")
	w.Edit("web", "color", "B")
	w.WaitEvent("WaitingToAdvance", "web", "configmap/web")
	w.Kubectl("set", "image", "deployment/web", "app=app:2")
	w.Barrier()
	if got := w.PinOf("web", "web"); got != a {
		t.Errorf("with the label manual, the pin moved to %s", got)
	}
	w.Kubectl("label", "deployment/web", keys.Advance+"-")
	w.WaitPinned("web", "web", "color", "B")

	w.Undo("web", "--to-revision="+w.rolloutRevision("web", a))
	w.WaitHeld("web", "web")
	if labels := w.Deployment("web").Labels; labels[keys.Track] != "all" {
		t.Errorf("the undo leaves the labels %v", labels)
	}
	w.Edit("web", "color", "C")
	c := w.WaitPinned("web", "web", "color", "C")

	w.Kubectl("label", "--overwrite", "deployment/web", keys.Track+"=none")
	w.Kubectl("annotate", "deployment/web", keys.Track+"=all")
	w.Edit("web", "color", "D")
	w.Barrier()
	if got := w.PinOf("web", "web"); got != c {
		t.Errorf("with the label none, the pin is %s, want %s", got, c)
	}
}

// The label of a source is only a convenience: where something keeps taking it away, confrev leaves it at that, and rolls out as before.
func TestALabelThatOthersRemoveIsGivenUp(t *testing.T) {
	t.Parallel()
	w, _ := deployed(t)
	labeled := func() bool {
		cm := &corev1.ConfigMap{}
		w.Must(w.Get("web", cm))
		return cm.Labels[keys.Source] != ""
	}
	for range plan.MaxReverts {
		w.Eventually("the source is labeled", func() string {
			if !labeled() {
				return "it is not"
			}
			return ""
		})
		// By no other process: what is a minute apart does not count.
		source := configMap("web")
		source.Namespace = w.NS
		w.Must(cluster.Client.Patch(w.Ctx, source, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+keys.Source+`":null}}}`))))
	}
	w.Barrier()
	if labeled() {
		t.Error("the label was removed three times, and is there again")
	}
	w.editTo("B")
	w.Barrier()
	if labeled() {
		t.Error("with another change of the source, the label is there again")
	}
}
