//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/test/gen"
)

// rolledOut has how often the templates of a Deployment were rolled out, as its controller counts.
const rolledOut = "deployment.kubernetes.io/revision"

// statefulSet returns the manifest of a StatefulSet that uses ConfigMap shared, with the rest of its spec.
func statefulSet(name, rest string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":%q,"annotations":{"confrev.io/track":"all"}},
"spec":{"serviceName":"none","selector":{"matchLabels":{"app":%[1]q}},%s,"template":{"metadata":{"labels":{"app":%[1]q}},
"spec":{"terminationGracePeriodSeconds":0,"containers":[{"name":"app","image":"app:1","envFrom":[{"configMapRef":{"name":"shared"}}]}]}}}}`, name, rest)
}

// membersAre waits until status shows members of the change to ConfigMap shared at stages, and a part of what it says of each:
// "Parked: partition".
func (w *world) membersAre(want map[string]string) {
	w.Helper()
	w.Eventually("the members are as they should be", func() string {
		list := view.SpreadList{}
		w.pluginJSON(&list, "status", "configmap/shared")
		have := map[string]view.MemberStatus{}
		for _, m := range list.Items[0].Apart {
			have[m.Workload] = m
		}
		for _, wave := range list.Items[0].Waves {
			for _, m := range wave.Members {
				have[m.Workload] = m
			}
		}
		for name, text := range want {
			stage, why, _ := strings.Cut(text, ": ")
			if m := have[name]; m.Stage != spread.Stage(stage) || !strings.Contains(m.Message, why) {
				return fmt.Sprintf("%s is %+v, want %s", name, m, text)
			}
		}
		if len(have) != len(want) {
			return fmt.Sprintf("there are %d members, want %d: %+v", len(have), len(want), have)
		}
		return ""
	})
}

// Rule 37, the table of members: who is waited for and who vouches, as the real controllers show it. A wave that can never pass by itself
// names what it waits for, and passes once a person has done that.
func TestTheTableOfMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nowhere := func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.NodeSelector = map[string]string{"example.com/no": "node"}
	}
	source := configMap("shared", "color", "A")
	source.Annotations = map[string]string{keys.Bake: "1s"}
	w.Create(source, deployment("well", envFrom("shared")), deployment("unwell", envFrom("shared"), nowhere), deployment("paused", envFrom("shared")),
		deployment("idle", envFrom("shared"), gen.Replicas(0)), deployment("manual", envFrom("shared"), gen.Annotated(keys.Advance, "manual")),
		deployment("last", envFrom("shared"), gen.Annotated(keys.Wave, "1")))
	w.KubectlIn(statefulSet("ordinals", `"replicas":2,"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":1}}`), "apply", "-f", "-")
	w.KubectlIn(statefulSet("by-hand", `"replicas":1,"updateStrategy":{"type":"OnDelete"}`), "apply", "-f", "-")
	first := w.WaitPinned("well", "shared", "color", "A")
	w.areRolledOut("well", "paused", "manual", "last")
	for name, replicas := range map[string]int32{"ordinals": 2, "by-hand": 1} {
		w.Eventually(name+" is well with its first pin", func() string {
			s := &appsv1.StatefulSet{}
			w.Must(w.Get(name, s))
			if s.Status.AvailableReplicas < replicas || s.Status.CurrentRevision != s.Status.UpdateRevision || s.Spec.Template.Annotations[keys.Pins] == "" {
				return fmt.Sprintf("%+v", s.Status)
			}
			return ""
		})
	}
	w.Kubectl("rollout", "pause", "deployment/paused")
	w.Edit("shared", "color", "B")
	all := map[string]string{
		"deployment/well": "Vouched", "deployment/unwell": "Unwell: ", "deployment/paused": "Later: it is paused (spec.paused)", "deployment/idle": "Idle: it has no replicas",
		"deployment/manual": "Apart: waits until a person advances it", "statefulset/ordinals": "Parked: pods below partition 1 stay",
		"statefulset/by-hand": "Parked: pods are replaced only when they are deleted", "deployment/last": "Waiting",
	}
	w.membersAre(all)
	if p := w.PinOf("paused", "shared"); p != first {
		t.Errorf("the Deployment that is paused got %s", p)
	}

	// Each of them is waited for, until someone acts.
	after := func(member, now string, act func()) {
		t.Helper()
		w.Barrier()
		if p := w.PinOf("last", "shared"); p != first {
			t.Errorf("before %s is %s, the next wave has begun: %s", member, now, p)
		}
		act()
		all = maps.Clone(all)
		all[member] = now
		w.membersAre(all)
	}
	after("statefulset/by-hand", "Vouched", func() { w.Kubectl("delete", "pod", "by-hand-0") })
	after("statefulset/ordinals", "Vouched", func() {
		w.Kubectl("patch", "statefulset/ordinals", "--type=merge", "-p", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
	})
	// The one that is unwell is not waited for. It vouches when it is well.
	all["deployment/last"] = "Vouched"
	after("deployment/paused", "Vouched", func() { w.Kubectl("rollout", "resume", "deployment/paused") })
	w.Kubectl("patch", "deployment/unwell", "--type=json", "-p", `[{"op":"remove","path":"/spec/template/spec/nodeSelector"}]`)
	all["deployment/unwell"] = "Vouched"
	w.membersAre(all)
	w.confrev("advance", "deployment/manual").ends(0)
	all["deployment/manual"] = "Vouched"
	w.membersAre(all)
	if got := w.PinOf("idle", "shared"); got == first || got == (pin.Pin{}) {
		t.Errorf("the one without replicas has %s", got)
	}
}

// Rules 34 and 40: changes to two sources that reach a workload in one rollout are one move. If it fails, both are stopped, both go back in one
// write, and each is repaired by itself.
func TestSourcesThatMoveTogetherFailTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	second := configMap("second", "size", "A")
	second.Annotations = map[string]string{keys.OnFailure: "undo"}
	w.Create(second)
	first := w.fleet(map[string]string{keys.OnFailure: "undo"}, "b")
	w.Create(deployment("a", envFrom("shared", "second")))
	w.WaitPinned("a", "second", "size", "A")
	w.areRolledOut("a")
	before := w.Deployment("a")
	// Not b, which has shared as well: the failure is to be that of both sources.
	end := w.noProgress("a")
	w.editTogether()
	for _, source := range []string{"shared", "second"} {
		w.Eventually(source+" is stopped", func() string {
			list := view.SpreadList{}
			w.pluginJSON(&list, "status", "configmap/"+source)
			if s := list.Items[0]; s.State != view.Stopped || !strings.Contains(s.Message, "deployment/a") {
				return fmt.Sprintf("%+v", s)
			}
			return ""
		})
	}
	w.goesBackTogether(before, end)
	w.isRepairedAlone(first)
}

// editTogether edits both sources of Deployment a, so that they reach it in one rollout.
func (w *world) editTogether() {
	w.Helper()
	w.Kubectl("annotate", "deployment/a", keys.FreezeUntil+"=2100-01-01")
	w.Edit("shared", "color", "B")
	w.Edit("second", "size", "B")
	w.WaitEvent("WaitingToAdvance", "a", "")
	w.Kubectl("annotate", "deployment/a", keys.FreezeUntil+"-")
}

// goesBackTogether waits until both pins of Deployment a are as before, lets it make progress again, and checks that it went there and back in one rollout
// each.
func (w *world) goesBackTogether(before *appsv1.Deployment, end func()) {
	w.Helper()
	w.Eventually("both go back", func() string {
		if pins := w.PinsText("a"); pins != before.Spec.Template.Annotations[keys.Pins] {
			return pins
		}
		return ""
	})
	end()
	w.areRolledOut("a", "b")
	w.Barrier()
	if after := w.Deployment("a"); after.Annotations[rolledOut] != "3" || before.Annotations[rolledOut] != "1" {
		w.Errorf("it was rolled out %s times, and %s times before", after.Annotations[rolledOut], before.Annotations[rolledOut])
	}
}

// isRepairedAlone repairs one source of Deployment a, and checks that the other stays where it was.
func (w *world) isRepairedAlone(first pin.Pin) {
	w.Helper()
	w.Edit("second", "size", "C")
	w.WaitPinned("a", "second", "size", "C")
	if p := w.PinOf("a", "shared"); p != first {
		w.Errorf("the repair of one brought the other along: %s", p)
	}
}

// Rules 34 and 40: the same where only one of the two has a setting. What fails is the combination, so both go back, and no one can end the hold of
// the other by resuming a change that nothing stops.
func TestWhatMovedTogetherGoesBackWithWhatFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("second", "size", "A"))
	first := w.fleet(map[string]string{keys.OnFailure: "undo"}, "b")
	w.Create(deployment("a", envFrom("shared", "second")))
	size := w.WaitPinned("a", "second", "size", "A")
	w.areRolledOut("a")
	before := w.Deployment("a")
	end := w.noProgress("a")
	w.editTogether()
	w.WaitEvent("ChangeFailed", "a", "")
	w.goesBackTogether(before, end)
	held, err := pin.ParseNotes(w.Deployment("a").Annotations[keys.Held])
	shared, second := pin.Source{Kind: pin.ConfigMap, Name: "shared"}, pin.Source{Kind: pin.ConfigMap, Name: "second"}
	if err != nil || held[shared].Stop != 1 || held[second].On != size || held[second].Stop != 0 {
		t.Errorf("it is held by %s (%v)", held, err)
	}
	w.isRepairedAlone(first)
}

// Rules 34 and 38: a member that waits for its turn with another source takes up no place, and others go first.
func TestWhatWaitsForAnotherSourceTakesUpNoPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	second := configMap("second", "size", "A")
	second.Annotations = map[string]string{keys.MaxRolling: "1"}
	w.Create(second)
	first := w.fleet(map[string]string{keys.Steps: "1", keys.Bake: "1h"}, "a")
	w.Create(deployment("b", envFrom("shared", "second")), deployment("c", envFrom("second")))
	size := w.WaitPinned("b", "second", "size", "A")
	w.WaitPinned("c", "second", "size", "A")
	w.areRolledOut("b", "c")
	w.Edit("shared", "color", "B")
	w.WaitEvent("WaitingToAdvance", "b", "")
	w.Edit("second", "size", "B")
	w.WaitPinned("c", "second", "size", "B")
	if shared, second := w.PinOf("b", "shared"), w.PinOf("b", "second"); shared != first || second != size {
		t.Errorf("b did not wait: it has %s and %s", shared, second)
	}
}
