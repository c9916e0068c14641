//go:build node

package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// midRollout is a workload of some kind between two configurations.
type midRollout struct {
	kind kind
	// before and after are its pins.
	before, after string
	// old and young are its pods.
	old, young []corev1.Pod
}

// In the middle of a rollout, whatever happens to a pod, it reads what it was rolled out with: in every way to refer to a ConfigMap or
// Secret, in workloads of every kind.
func TestPodsKeepTheirConfigurationInMidRollout(t *testing.T) {
	stands := map[*midRollout]*world{}
	for _, kind := range everyKind {
		stands[&midRollout{kind: kind}] = newWorld(t)
	}
	each := func(what string, do func(*midRollout, *world)) {
		ok := t.Run(what, func(t *testing.T) {
			for m, w := range stands {
				t.Run(m.kind.Resource(), func(t *testing.T) {
					t.Parallel()
					do(m, w.in(t))
				})
			}
		})
		if !ok {
			t.FailNow()
		}
	}
	each("half rolled out", (*midRollout).begin)
	each("restarted in place", (*midRollout).restart)
	newWorld(t).rebootNode(func() {})
	each("node restarted", (*midRollout).reboot)
	each("replaced", (*midRollout).replace)
}

// begin comes to a workload whose rollout has stopped half-way.
func (m *midRollout) begin(w *world) {
	w.createSources()
	m.before = w.deploy(m.kind, probe(everyWay))
	w.waitPods(m.kind.pods)
	w.halt(m.kind)
	w.AtOnce(func() { w.editSources("green") })
	m.after = w.waitOtherPins(m.kind, m.before)
	m.look(w, m.kind.old, m.kind.young)
}

// look waits for so many old and young pods, and checks what they read.
func (m *midRollout) look(w *world, old, young int) {
	w.Helper()
	pods := w.waitGenerations(generations{m.before: old, m.after: young})
	m.old, m.young = pods[m.before], pods[m.after]
	m.check(w)
}

func (m *midRollout) check(w *world) {
	w.Helper()
	for _, pod := range m.old {
		w.startedWithEverything("old pod", pod, "blue")
	}
	for _, pod := range m.young {
		w.startedWithEverything("young pod", pod, "green")
	}
}

func (m *midRollout) restart(w *world) {
	for i, pod := range m.old {
		m.old[i] = w.restart(pod)
		if printed := w.readBefore(pod); len(printed) != 1 {
			w.Errorf("files changed under the container that ran before, which printed %v", printed)
		}
	}
	m.check(w)
}

func (m *midRollout) reboot(w *world) {
	for _, pods := range [][]corev1.Pod{m.old, m.young} {
		for i, pod := range pods {
			pods[i] = w.waitRestarted(pod)
		}
	}
	m.check(w)
}

func (m *midRollout) replace(w *world) {
	for _, pod := range m.old {
		w.Kubectl("delete", "pod", pod.Name)
	}
	if m.kind.renewed {
		m.look(w, 0, m.kind.old+m.kind.young)
	} else {
		m.look(w, m.kind.old, m.kind.young)
	}
}
