//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/view"
)

// unadopted makes Deployments that use ConfigMap shared, in a namespace that is not opted in, and waits until they are rolled out.
func (w *world) unadopted(settings map[string]string, options []deploymentOption, names ...string) {
	w.Helper()
	source := configMap("shared", "color", "A")
	source.Annotations = settings
	w.Create(source)
	for _, name := range names {
		w.Create(deployment(name, append([]deploymentOption{envFrom("shared"), untracked}, options...)...))
	}
	w.areRolledOut(names...)
}

// adopt opts the namespace in.
func (w *world) adopt() {
	w.Helper()
	w.Kubectl("label", "namespace", w.NS, keys.Track+"=all")
}

// untracked leaves it to the namespace to opt a Deployment in.
func untracked(d *appsv1.Deployment) { delete(d.Annotations, keys.Track) }

// pinned returns those of some Deployments that have a pin of ConfigMap shared.
func (w *world) pinned(names ...string) []string { return w.have(pin.Pin{}, names...) }

func (w *world) pinnedAre(names []string, want ...string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("%v are pinned", want), func() string {
		if got := w.pinned(names...); !slices.Equal(got, want) {
			return fmt.Sprintf("%v are", got)
		}
		return ""
	})
}

// Rule 38: opting a namespace in rolls out only so many workloads at a time. A deploy, a person, and what runs no pods do not wait.
func TestFirstPinsKeepToTheBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := []string{"a", "b", "c", "d", "e", "f"}
	w.unadopted(map[string]string{keys.MaxRolling: "2", keys.Bake: "1h"}, nil, names...)
	// No rollout ends while no pods can be made.
	end := w.noMorePods()
	w.adopt()
	w.pinnedAre(names, "a", "b")
	w.WaitEvent("WaitingToAdvance", "f", "configmap/shared is not pinned yet, and waits for its turn (annotation confrev.io/max-rolling of configmap/shared")
	w.Kubectl("scale", "deployment/c", "--replicas=2")
	w.Kubectl("label", "configmap/shared", "touched=1")
	w.Barrier()
	if got := w.pinned(names...); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%v are pinned", got)
	}
	w.confrev("status", "configmap/shared").ends(3, "6 first pins to come or in the middle, at most 2 at a time")
	w.confrev("status", "deployment/f").ends(3, "-        1         Waiting")
	w.Kubectl("set", "image", "deployment/e", "app=app:2")
	w.pinnedAre(names, "a", "b", "e")
	w.confrev("advance", "deployment/d", "--dry-run=client").says("configmap/shared: pinned to revision 1")
	w.confrev("advance", "deployment/f").says("configmap/shared: pinned to revision 1")
	w.Create(deployment("new", envFrom("shared"), untracked))
	w.pinnedAre(append(names, "new"), "a", "b", "e", "f", "new")
	w.Kubectl("scale", "deployment/d", "--replicas=0")
	w.pinnedAre(names, "a", "b", "d", "e", "f")
	end()
	w.pinnedAre(names, names...)
	w.areRolledOut(names...)
	w.Eventually("nothing is left to do", func() string {
		if s := w.spreads(); s.State != view.Complete || len(s.FirstPins) > 0 {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	for _, name := range names {
		if note := w.Deployment(name).Annotations[keys.Advanced]; strings.Contains(note, `"from":"configmap`) {
			t.Errorf("%s: the first pin has something to go back to: %s", name, note)
		}
	}
}

// Rule 38: workloads that do not get well keep no other one from its first pin.
func TestFirstPinsDoNotWaitForTheUnwell(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := []string{"a", "b", "c"}
	impatient := func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = new(int32(5)) }
	w.unadopted(map[string]string{keys.MaxRolling: "1", keys.OnFailure: "undo-all"}, []deploymentOption{impatient}, names...)
	end := w.noMorePods()
	w.adopt()
	w.pinnedAre(names, names...)
	w.Barrier()
	if s := w.spreads(); s.State == view.Stopped {
		t.Errorf("a first pin that fails stopped something: %+v", s)
	}
	end()
	w.areRolledOut(names...)
	w.pinnedAre(names, names...)
}

// Rule 38: with OnDelete, a first pin needs a person until all pods are new, and is rolled out then, although the controller keeps currentRevision.
func TestAFirstPinWithOnDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.unadopted(map[string]string{keys.MaxRolling: "1"}, nil)
	leftAlone := strings.Replace(statefulSet("by-hand", `"replicas":1,"updateStrategy":{"type":"OnDelete"}`), `"all"`, `"none"`, 1)
	w.KubectlIn(leftAlone, "apply", "-f", "-")
	w.Eventually("its pod runs", func() string {
		s := &appsv1.StatefulSet{}
		if w.Must(w.Get("by-hand", s)); s.Status.AvailableReplicas == 0 {
			return fmt.Sprintf("%+v", s.Status)
		}
		return ""
	})
	w.Kubectl("annotate", "--overwrite", "statefulset/by-hand", keys.Track+"=all")
	w.Eventually("it needs a person", func() string {
		if s := w.spreads(); len(s.FirstPins) != 1 || s.FirstPins[0].Stage != spread.Parked {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	w.Kubectl("delete", "pod", "by-hand-0")
	w.Eventually("nothing is left to do", func() string {
		if s := w.spreads(); s.State != view.Complete || len(s.FirstPins) > 0 {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
}

// Rule 36: with a typo in the setting, opting a namespace in does not roll out everything at once.
func TestFirstPinsWaitForASettingThatCanBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := []string{"a", "b", "c"}
	w.unadopted(map[string]string{keys.MaxRolling: "two", keys.OnFailure: "stop"}, nil, names...)
	w.adopt()
	w.WaitEvent("InvalidSpreading", "a", `annotation confrev.io/max-rolling of configmap/shared: "two" is not an amount`)
	w.WaitEvent("WaitingToAdvance", "c", "configmap/shared is not pinned yet, and waits until annotation confrev.io/max-rolling of configmap/shared is corrected")
	w.confrev("status", "configmap/shared").ends(3, "3 first pins to come or in the middle")
	w.Create(deployment("new", envFrom("shared"), untracked))
	w.pinnedAre(append(names, "new"), "new")
	w.Kubectl("scale", "deployment/b", "--replicas=2")
	w.Barrier()
	w.pinnedAre(append(names, "new"), "new")
	w.Kubectl("annotate", "--overwrite", "configmap/shared", keys.MaxRolling+"=2")
	w.pinnedAre(names, names...)
}
