//go:build reliability

package reliability

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// upgraded is how many Deployments there are, of so many pods each.
const upgraded, podsOfEach = 50, 10

// The previous version's chart and program are replaced by this one's, and back, and again. Of 500 pods, none restarts, and no workload changes. Then an edit
// rolls each of them out once.
func TestUpgradeAndDowngrade(t *testing.T) {
	programs, err := cluster.BuildPrevious(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	values := []string{"settle=" + settle.String(), "grace=" + grace.String()}
	w := newWorld(t)
	v := versions{world: w, binaries: map[string]string{env.PreviousChart: filepath.Join(programs, "confrev"), "charts/confrev": binary}, values: values}
	t.Cleanup(func() {
		// Whatever happens, the other tests need this version.
		if err := cluster.Install(context.Background(), values...); err != nil {
			t.Error(err)
		}
	})
	stop := v.change(env.PreviousChart)
	w.Create(configMap(source, "A"))
	for i := range upgraded {
		w.Create(deployment(fmt.Sprint("web-", i), gen.Replicas(podsOfEach)))
	}
	w.waitPinned("A")
	w.noOldPods()
	before := w.running()
	for _, chart := range []string{"charts/confrev", env.PreviousChart, "charts/confrev"} {
		stop()
		stop = v.change(chart)
		w.Barrier()
		if diff := cmp.Diff(before, w.running()); diff != "" {
			t.Fatalf("after a change to %s, something is different (-before +after):\n%s", chart, diff)
		}
		t.Logf("%s: %d objects are as they were", chart, len(before))
	}
	generations := w.generations()
	w.Edit(source, color, "B")
	w.waitPinned("B")
	w.Barrier()
	for name, generation := range w.generations() {
		if n := generation - generations[name]; n != 1 {
			t.Errorf("%s has rolled out %d times", name, n)
		}
	}
	stop()
}

// versions are charts with their programs.
type versions struct {
	*world
	binaries map[string]string
	values   []string
}

// change installs a chart in the place of the one that is installed, and starts its program. stop stops it.
func (v versions) change(chart string) (stop func()) {
	v.Helper()
	values, err := cluster.Values(v.values...)
	v.Must(err)
	args := append([]string{"upgrade", "--install", "confrev", chart, "--namespace", env.Namespace, "--wait", "--reset-values", "--force-conflicts"}, values...)
	_, err = cluster.Run(v.Ctx, "", "helm", args...)
	v.Must(err)
	confrev, err := cluster.Confrev(v.Ctx, "version", v.binaries[chart], "--settle", settle.String(), "--grace", grace.String(),
		"--revisions-per-hour", "1000", "--rollouts-per-hour", "1000")
	v.Must(err)
	v.Must(confrev.Start(v.Ctx))
	v.Cleanup(func() {
		if !confrev.Ended() {
			v.Must(confrev.Stop())
		}
	})
	v.Must(cluster.WaitWebhook(v.Ctx))
	return func() { v.Must(confrev.Stop()) }
}

// noOldPods waits until there are as many pods as the Deployments want: those of earlier templates end after they are rolled out.
func (w *world) noOldPods() {
	w.Helper()
	w.Eventually("pods of earlier templates are gone", func() string {
		pods := &corev1.PodList{}
		if w.List(pods); len(pods.Items) != upgraded*podsOfEach {
			return fmt.Sprintf("there are %d pods, want %d", len(pods.Items), upgraded*podsOfEach)
		}
		return ""
	})
}

// running returns what must not change: pods with their restarts, ReplicaSets, and Deployments with their generations, all by uid.
func (w *world) running() map[string]string {
	w.Helper()
	all := map[string]string{}
	pods, sets := &corev1.PodList{}, &appsv1.ReplicaSetList{}
	w.List(pods)
	for _, pod := range pods.Items {
		restarts := int32(0)
		for _, status := range pod.Status.ContainerStatuses {
			restarts += status.RestartCount
		}
		all["pod "+pod.Name] = fmt.Sprintf("%s %s, %d restarts", pod.UID, pod.Status.Phase, restarts)
	}
	w.List(sets)
	for _, set := range sets.Items {
		if set.Labels["app"] != "barrier" {
			all["replicaset "+set.Name] = fmt.Sprintf("%s, generation %d", set.UID, set.Generation)
		}
	}
	for _, s := range w.subjects() {
		all[s.String()] = fmt.Sprintf("%s, generation %d", s.GetUID(), s.GetGeneration())
	}
	return all
}
