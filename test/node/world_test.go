//go:build node

package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/pin"
)

// patience bounds every wait for something that must happen.
const patience = 2 * time.Minute

// world is a namespace of its own for one test, and what a user does in it.
type world struct {
	*testing.T
	ctx context.Context
	ns  string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, ctx: t.Context()}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
	w.must(cluster.Client.Create(w.ctx, ns))
	w.ns = ns.Name
	t.Cleanup(func() {
		if err := cluster.Delete(context.Background(), ns); err != nil {
			t.Error(err)
		}
	})
	return w
}

// in is the same world for a subtest.
func (w *world) in(t *testing.T) *world { return &world{T: t, ctx: t.Context(), ns: w.ns} }

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// kubectl runs kubectl in the namespace and gives what it printed.
func (w *world) kubectl(args ...string) string {
	w.Helper()
	return w.run(append([]string{"kubectl"}, args...))
}

// run runs a command of hack/cluster in the namespace, if there is one, and gives what it printed.
func (w *world) run(command []string) string {
	w.Helper()
	if len(command) == 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	out, err := cluster.Run(ctx, "", command[0], append([]string{"--namespace", w.ns}, command[1:]...)...)
	w.must(err)
	return out
}

// eventually waits until check has nothing to complain of.
func (w *world) eventually(what string, check func() (complaint string)) {
	w.Helper()
	complaint := "not looked at"
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if complaint = check(); complaint == "" {
			return
		}
	}
	w.Fatalf("%s: still not after %s: %s\n%s", what, patience, complaint, w.describe())
}

// describe shows the namespace as a user would look at it.
func (w *world) describe() string {
	out, err := cluster.Kubectl(context.Background(), "--namespace", w.ns, "get",
		"deployments,statefulsets,daemonsets,cronjobs,jobs,rollouts,replicasets,pods,configmaps,events", "-o", "wide")
	if err != nil {
		return err.Error()
	}
	return out
}

func (w *world) get(name string, obj client.Object) {
	w.Helper()
	w.must(cluster.Client.Get(w.ctx, types.NamespacedName{Namespace: w.ns, Name: name}, obj))
}

func (w *world) create(objects ...client.Object) {
	w.Helper()
	for _, obj := range objects {
		obj.SetNamespace(w.ns)
		w.must(cluster.Client.Create(w.ctx, obj))
	}
}

// edit sets one key of a source.
func (w *world) edit(source, key, value string) {
	w.Helper()
	kind, name, _ := strings.Cut(source, "/")
	data := "data"
	if kind == string(pin.Secret) {
		data = "stringData"
	}
	w.kubectl("patch", kind, name, "--patch", fmt.Sprintf(`{%q:{%q:%q}}`, data, key, value))
}

// pods lists the pods of the workload that are not on their way out, by name.
func (w *world) pods() []corev1.Pod {
	w.Helper()
	all := &corev1.PodList{}
	w.must(cluster.Client.List(w.ctx, all, client.InNamespace(w.ns), client.MatchingLabels{"app": web}))
	return slices.DeleteFunc(all.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

// waitPods waits until the workload has exactly n pods and all are ready, and gives them.
func (w *world) waitPods(n int) []corev1.Pod {
	w.Helper()
	var pods []corev1.Pod
	w.eventually(fmt.Sprintf("%d ready pods", n), func() string {
		pods = w.pods()
		if len(pods) != n {
			return fmt.Sprintf("%d pods", len(pods))
		}
		for _, pod := range pods {
			if !ready(pod) {
				return pod.Name + " is not ready"
			}
		}
		return ""
	})
	return pods
}

func ready(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// restarts is how often a pod's container was started again.
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
	w.eventually("restart of "+pod.Name, func() string {
		w.get(pod.Name, &now)
		switch {
		case now.UID != pod.UID:
			w.Fatalf("%s is another pod now", pod.Name)
		case restarts(now) <= restarts(pod):
			return fmt.Sprintf("%d restarts", restarts(now))
		case !ready(now):
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
	_, err := cluster.Kubectl(w.ctx, "--namespace", w.ns, "exec", pod.Name, "--container=app", "--", "/probe", "exit")
	if err != nil {
		w.Log(err)
	}
	return w.waitRestarted(pod)
}

// rebootNode stops the real node, lets something happen meanwhile, and starts it again.
func (w *world) rebootNode(meanwhile func()) {
	w.Helper()
	w.must(cluster.NodeStop(w.ctx))
	// Whatever happens, the other tests need the node.
	defer func() { w.must(cluster.NodeStart(context.WithoutCancel(w.ctx))) }()
	meanwhile()
}

// withoutConfrev kills confrev, lets something happen meanwhile, and starts it again.
func (w *world) withoutConfrev(do func()) {
	w.Helper()
	w.must(confrev.Kill())
	// Whatever happens, the other tests need it.
	defer func() { w.must(confrev.Start(context.WithoutCancel(w.ctx))) }()
	do()
}
