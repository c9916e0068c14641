//go:build node

package node

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/test/env"
)

// world is a namespace of its own for one test, and what a user does in it.
type world struct {
	*testing.T
	env.World
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t, env.NewWorld(t, cluster, "node")}
}

// in returns the same world for a subtest.
func (w *world) in(t *testing.T) *world { return &world{t, cluster.WorldIn(t, w.NS)} }

// run runs a command of hack/cluster in the namespace, if there is one, and returns what it printed.
func (w *world) run(command []string) string {
	w.Helper()
	if len(command) == 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(w.Ctx, w.Patience)
	defer cancel()
	out, err := cluster.Run(ctx, "", command[0], append([]string{"--namespace", w.NS}, command[1:]...)...)
	w.Must(err)
	return out
}

// pods lists the pods of the workload that are not on their way out.
func (w *world) pods() []corev1.Pod { return w.Pods(web) }

// waitPods waits until the workload has exactly n pods and all are ready, and returns them.
func (w *world) waitPods(n int) []corev1.Pod {
	w.Helper()
	var pods []corev1.Pod
	w.Eventually(fmt.Sprintf("%d ready pods", n), func() string {
		pods = w.pods()
		if len(pods) != n {
			return fmt.Sprintf("%d pods", len(pods))
		}
		for _, pod := range pods {
			if !env.Ready(&pod) {
				return pod.Name + " is not ready"
			}
		}
		return ""
	})
	return pods
}

// restarts returns how often a pod's container was started again.
func restarts(pod corev1.Pod) int32 {
	var n int32
	for _, status := range pod.Status.ContainerStatuses {
		n += status.RestartCount
	}
	return n
}

// waitRestarted waits until the container of that very pod was started again since pod was read, and is ready.
func (w *world) waitRestarted(pod corev1.Pod) corev1.Pod {
	w.Helper()
	var now corev1.Pod
	w.Eventually("restart of "+pod.Name, func() string {
		w.Must(w.Get(pod.Name, &now))
		switch {
		case now.UID != pod.UID:
			w.Fatalf("%s is another pod now", pod.Name)
		case restarts(now) <= restarts(pod):
			return fmt.Sprintf("%d restarts", restarts(now))
		case !env.Ready(&now):
			return "not ready"
		}
		return ""
	})
	return now
}

// restart ends a pod's container and waits until the kubelet has started it again, in the same pod.
func (w *world) restart(pod corev1.Pod) corev1.Pod {
	w.Helper()
	// It is no matter if it fails: the container may end before the command does, and the command with it.
	_, err := cluster.Kubectl(w.Ctx, "--namespace", w.NS, "exec", pod.Name, "--container=app", "--", "/probe", "exit")
	if err != nil {
		w.Log(err)
	}
	return w.waitRestarted(pod)
}

// rebootNode stops the real node, lets something happen meanwhile, and starts it again.
func (w *world) rebootNode(meanwhile func()) {
	w.Helper()
	w.Must(cluster.NodeStop(w.Ctx))
	// Whatever happens, the other tests need the node.
	defer func() { w.Must(cluster.NodeStart(context.WithoutCancel(w.Ctx))) }()
	meanwhile()
}
