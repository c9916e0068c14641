//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/test/gen"
)

// noHistory makes a Deployment keep no ReplicaSet for an undo.
var noHistory = gen.HistoryLimit(0)

// deleteWithUses deletes a Deployment, and waits until garbage collection has deleted what it owned.
func (w *world) deleteWithUses(name string) {
	w.Helper()
	d, holders := w.Deployment(name), w.ReplicaSets(name)
	owned := configMap("owned-by-"+name, "k", "v")
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: name, UID: d.UID}}
	w.Create(owned)
	w.Must(cluster.Client.Delete(w.Ctx, d, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	w.waitGone(owned.Name)
	w.Eventually("its ReplicaSets are gone", func() string {
		for i := range holders {
			if err := w.Get(holders[i].Name, &holders[i]); err == nil {
				return holders[i].Name + " is left"
			}
		}
		return ""
	})
}

func left(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n, " are left")
}

// sweeps waits until confrev has deleted a revision that becomes unused now: those that became unused before would be gone too.
func (w *world) sweeps() {
	w.Helper()
	w.Create(configMap("other", "color", "A"), deployment("other", envFrom("other"), noHistory))
	w.WaitPinned("other", "other", "color", "A")
	w.areRolledOut("other")
	before := w.PinOf("other", "other")
	w.Edit("other", "color", "B")
	w.waitGone(before.Revision)
}

// Rules 13 and 40: a stop outlasts the workloads because of which there is one. Only they had the revision that notes it.
func TestAStopOutlastsTheWorkloadThatFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.fleet(map[string]string{keys.Steps: "1", keys.OnFailure: "stop"}, "a", "b")
	end := w.noProgress("a")
	w.Edit("shared", "color", "broken")
	w.allHave(first, "a")
	bad := w.PinOf("a", "shared")
	w.WaitEvent("ChangeFailed", "a", "It stays here.")
	end()
	w.deleteWithUses("a")
	w.Kubectl("label", "configmap/shared", "touched=1")
	w.Barrier()
	if s := w.spreads(); s.State != view.Stopped || w.PinOf("b", "shared") != first {
		t.Fatalf("b has %s, %+v", w.PinOf("b", "shared"), s)
	}
	w.sweeps()
	if p := w.PinOf("b", "shared"); p != first {
		t.Fatalf("b has %s", p)
	}
	// It has served its purpose once there is other content.
	w.Edit("shared", "color", "repaired")
	w.allHave(first, "b")
	w.waitGone(bad.Revision)
}

// Rules 13 and 40: a stop outlasts the rollback, after which no history has the change.
func TestAStopOutlastsTheUndo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.fleet(map[string]string{keys.Steps: "1", keys.OnFailure: "undo"}, "a", "b")
	end := w.noProgress("a")
	w.Edit("shared", "color", "broken")
	bad := pin.Pin{Revision: trueName("shared", "color", "broken"), Number: 2}
	w.WaitEvent("ChangeFailed", "a", "revision 2 of configmap/shared failed")
	w.goesBack("a", first)
	end()
	w.areRolledOut("a")
	w.Kubectl("patch", "deployment", "a", "--type=merge", "-p", `{"spec":{"revisionHistoryLimit":0}}`)
	w.Eventually("nothing shows that a had the change", func() string { return left(len(w.ReplicaSets("a")) - 1) })
	w.sweeps()
	if s := w.spreads(); s.State != view.Stopped || len(w.have(first, "a", "b")) > 0 {
		t.Fatalf("%v have the change, %+v", w.have(first, "a", "b"), s)
	}
	w.confrev("resume", "configmap/shared").ends(0)
	w.allHave(first, "a", "b")
	if p := w.PinOf("b", "shared"); p != bad {
		t.Errorf("b has %s, want %s", p, bad)
	}
	w.Eventually("its users own the revision again", func() string { return w.ownedByAnchor(bad.Revision) })
}

// ownedByAnchor complains if the anchor owns a revision.
func (w *world) ownedByAnchor(name string) string {
	w.Helper()
	made := &corev1.ConfigMap{}
	w.Must(w.Get(name, made))
	for _, o := range made.OwnerReferences {
		if o.Name == revision.AnchorName {
			return "the anchor does"
		}
	}
	return ""
}

// Rules 13 and 44: that a namespace has vouched for a change outlasts the workloads that did, while the change waits for something else in the
// next namespace, and no longer.
func TestWhatWasVouchedForStaysSo(t *testing.T) {
	t.Parallel()
	earlier, later := newStages(t)
	earlier.Create(configMap("shared", "color", "A"), deployment("one", envFrom("shared"), noHistory))
	before := earlier.WaitPinned("one", "shared", "color", "A")
	later.fleet(nil, "a")
	later.comesAfter(earlier)
	later.Kubectl("annotate", "configmap/shared", keys.FreezeUntil+"=2100-01-01")
	for _, w := range []*world{earlier, later} {
		w.Edit("shared", "color", "B")
	}
	earlier.allHave(before, "one")
	vouched := earlier.PinOf("one", "shared")
	earlier.Eventually("it is vouched for", func() string {
		if r, ok := spread.ParseRecord(earlier.note(vouched)); !ok || !r.Complete {
			return "it notes " + earlier.note(vouched)
		}
		return ""
	})
	earlier.Edit("shared", "color", "C")
	earlier.allHave(vouched, "one")
	earlier.areRolledOut("one")
	earlier.sweeps()
	earlier.deleteWithUses("one")
	later.staysAt(before, "a")
	later.Kubectl("annotate", "configmap/shared", keys.FreezeUntil+"-")
	later.WaitPinned("a", "shared", "color", "B")
	earlier.waitGone(vouched.Revision)
}

// note returns how far a revision notes that its change has spread.
func (w *world) note(of pin.Pin) string {
	w.Helper()
	made := &corev1.ConfigMap{}
	w.Must(w.Get(of.Revision, made))
	return made.Annotations[keys.Propagation]
}
