//go:build node

package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The canary story, as containers see it. The canary fails in earnest: its configuration makes its container crash.
func TestAFaultyCanary(t *testing.T) {
	c := &canary{world: newWorld(t), kind: rollout.with(5, fields{"replicas": int64(5)})}
	c.kind.hold = canaryAt(20)
	c.Create(configMap("app", "mode", "blue"))
	c.stable = c.deploy(c.kind, probe(byVolume("configmap/app"), bySubPath("configmap/app", "mode"),
		byEnv("configmap/app", "mode"), byEnvFrom("configmap/app")))
	c.halt(c.kind)

	c.faulty = c.edited("crash")
	stable := c.waitMidCanary("at first")
	c.restart(stable[0])
	stable = c.waitMidCanary("after one was restarted in place")
	for range 2 {
		stable = c.losePod(stable)
	}
	c.WithoutConfrev(confrev, func() { stable = c.losePod(stable) })
	c.rebootNode(func() {})
	for _, pod := range stable {
		c.waitRestarted(pod)
	}
	stable = c.waitMidCanary("after the node was restarted")

	c.argo("abort")
	after := c.waitGenerations(generations{c.stable: 5})[c.stable]
	for _, pod := range stable {
		c.untouched(pod, after)
	}
	c.allRead("after the abort", after, "blue")

	fixed := c.edited("green")
	c.waitPhase("Paused")
	pods := c.waitGenerations(generations{c.stable: 4, fixed: 1})
	c.allRead("stable pods in addition to the fixed canary", pods[c.stable], "blue")
	c.allRead("the fixed canary", pods[fixed], "green")
	c.argo("promote")
	c.allRead("promoted", c.waitGenerations(generations{fixed: 5})[fixed], "green")
	c.waitRolledOut(c.kind)

	c.argo("undo", "--to-revision="+c.revision(c.stable))
	c.waitPhase("Paused")
	c.argo("promote")
	c.allRead("undone", c.waitGenerations(generations{c.stable: 5})[c.stable], "blue")
	c.waitRolledOut(c.kind)
	if got := c.pins(c.kind); got != c.stable {
		c.Errorf("after the undo, confrev pinned the Rollout to %s", got)
	}
}

// canary is Rollout web in the story.
type canary struct {
	*world
	kind kind
	// stable and faulty are the pins of the stable pods and of the canary.
	stable, faulty string
}

// edited sets another value in the source, and returns the pins that come of it.
func (c *canary) edited(mode string) (pins string) {
	c.Helper()
	before := c.pins(c.kind)
	c.Edit("app", "mode", mode)
	return c.waitOtherPins(c.kind, before)
}

// waitMidCanary waits for four stable pods and the canary, checks what they read, and returns the stable ones.
func (c *canary) waitMidCanary(when string) []corev1.Pod {
	c.Helper()
	pods := c.waitGenerations(generations{c.stable: 4, c.faulty: 1})
	c.allRead("stable pods "+when, pods[c.stable], "blue")
	c.allRead("canary "+when, pods[c.faulty], "crash")
	return pods[c.stable]
}

// losePod deletes a stable pod in mid-canary, checks what the pods read then, and returns the stable ones.
func (c *canary) losePod(stable []corev1.Pod) []corev1.Pod {
	c.Helper()
	c.Kubectl("delete", "pod", stable[0].Name)
	return c.waitMidCanary("after one was replaced")
}

func (c *canary) allRead(what string, pods []corev1.Pod, mode string) {
	c.Helper()
	for _, pod := range pods {
		c.startedInMode(what, pod, mode)
	}
}

func (c *canary) startedInMode(what string, pod corev1.Pod, mode string) {
	c.Helper()
	c.checkReading(what, c.startedWith(pod), reading{
		Env:   map[string]string{"CFG_ENV_mode": mode, "CFG_ENVFROM_mode": mode},
		Files: map[string]string{volumePath("configmap/app", "mode"): mode, subPath("configmap/app", "mode"): mode},
	})
}

// untouched checks that a pod is still there, and its container was not started again.
func (c *canary) untouched(pod corev1.Pod, now []corev1.Pod) {
	c.Helper()
	type state struct {
		UID      types.UID
		Restarts int32
	}
	i := slices.IndexFunc(now, func(p corev1.Pod) bool { return p.Name == pod.Name })
	if i < 0 {
		c.Errorf("stable pod %s is gone", pod.Name)
		return
	}
	if diff := cmp.Diff(state{pod.UID, restarts(pod)}, state{now[i].UID, restarts(now[i])}); diff != "" {
		c.Errorf("stable pod %s was touched (-before +now):\n%s", pod.Name, diff)
	}
}

// argo runs kubectl argo rollouts on the Rollout.
func (c *canary) argo(verb string, args ...string) {
	c.Helper()
	_, err := cluster.Run(c.Ctx, "", "kubectl-argo-rollouts", append([]string{"--namespace", c.NS, verb, web}, args...)...)
	c.Must(err)
}

// waitPhase waits until Argo Rollouts has dealt with the Rollout as it is now, and says that phase of it.
func (c *canary) waitPhase(want string) {
	c.Helper()
	c.Eventually("phase "+want, func() string {
		said := strings.Split(c.Kubectl("get", "rollout", web, "-o",
			"jsonpath={.status.phase}/{.status.observedGeneration}/{.metadata.generation}"), "/")
		if said[0] != want || said[1] != said[2] {
			return fmt.Sprintf("phase/observed generation/generation are %s", said)
		}
		return ""
	})
}

// revision returns the number by which the Rollout's history knows the template with these pins.
func (c *canary) revision(pins string) string {
	c.Helper()
	return c.Kubectl("get", "replicasets", "-o",
		`jsonpath={.items[?(@.spec.template.metadata.annotations.confrev\.io/pins=="`+pins+`")].metadata.annotations.rollout\.argoproj\.io/revision}`)
}
