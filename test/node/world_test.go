//go:build node

// Package node tests what only a real kubelet can show: with which configuration containers really start and restart. It
// needs a machine on which 'go run -C hack/cluster . node check' succeeds.
//
// Tests that stop the node or confrev run first, one after the other; those that call t.Parallel share the running ones.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/test/env"
)

var (
	cluster *env.Cluster
	confrev *env.Confrev
)

func TestMain(m *testing.M) {
	code, err := run(m)
	cluster.Exit(code, err)
}

func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	name := cmp.Or(os.Getenv("CONFREV_NODE_CLUSTER"), "node")
	if cluster, err = env.Up(ctx, name, os.Stderr, env.RealNode, env.ArgoRollouts); err != nil {
		return 1, err
	}
	if confrev, err = cluster.StartConfrev(ctx, []string{"secrets.enabled=true", "failFast.enabled=true", "failFast.evictStuckPods=true"},
		"--settle", "1s", "--secrets", "--fail-fast", "--evict-stuck-pods"); err != nil {
		return 1, err
	}
	fmt.Fprintln(os.Stderr, "node: confrev logs to", confrev.Log)
	defer func() { err = errors.Join(err, confrev.Stop()) }()
	return m.Run(), nil
}

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
	w.Must(cluster.Node(w.Ctx, "stop"))
	// Whatever happens, the other tests need the node.
	defer func() { w.Must(cluster.Node(context.WithoutCancel(w.Ctx), "start")) }()
	meanwhile()
}
