//go:build perf

package perf

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// failing is how many Deployments fail with a change.
const failing = 50

// BenchmarkUndone measures how long it takes from a Deployment's own report that a change failed until the template has its last good pin
// again, without a person. Each Deployment has a ConfigMap of its own, and they are edited one after the other.
func BenchmarkUndone(b *testing.B) {
	w := newWorld(b)
	var names []string
	for i := range failing {
		names = append(names, fmt.Sprintf("web-%02d", i))
	}
	w.many(failing, creating, func(i int) error {
		source := configMap(names[i], "good")
		source.Annotations = map[string]string{keys.OnFailure: "undo"}
		if err := w.TryCreate(source); err != nil {
			return err
		}
		d := gen.Deployment(names[i], gen.Tracking("all"), gen.Replicas(1), gen.Template(gen.EnvFrom("configmap/"+names[i])))
		d.Spec.ProgressDeadlineSeconds = new(int32(2))
		return w.TryCreate(gen.Unsaved(d))
	})
	w.startPinning(workload.Deployment, names, "--settle", "0s")
	w.idleRollouts(names)
	w.noMorePods()
	t := newTable(b, fmt.Sprintf("%d Deployments that fail", failing), "median", "max")
	for b.Loop() {
		taken := w.undone(names)
		t.row("reported until undone", middle(taken), slices.Max(taken))
		measured(b, failing).took("reported to undone", taken)
	}
	t.print()
}

// noMorePods makes every rollout fail.
func (w *world) noMorePods() {
	w.Helper()
	full := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "full"}}
	full.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	w.Must(w.TryCreate(full))
	w.Eventually("the quota counts", func() string {
		w.Must(w.Get("full", full))
		if full.Status.Hard.Pods().Value() != 0 || full.Status.Hard == nil {
			return fmt.Sprint(full.Status)
		}
		return ""
	})
}

// undone edits the ConfigMap of each Deployment, and returns how long each kept the change after its controller had reported that it failed.
func (w *world) undone(names []string) []time.Duration {
	w.Helper()
	list := &appsv1.DeploymentList{}
	stream := w.watch(list, nil)
	good, failed := map[string]string{}, map[string]time.Time{}
	for _, d := range list.Items {
		good[d.Name] = d.Spec.Template.Annotations[keys.Pins]
	}
	// That takes less than the deadline.
	for _, name := range names {
		w.edit(name, "bad")
	}
	var taken []time.Duration
	for event := range stream.ResultChan() {
		d, is := event.Object.(*appsv1.Deployment)
		if !is {
			w.Fatalf("the watch says %v", event.Object)
		}
		since, reported := failed[d.Name]
		switch back := d.Spec.Template.Annotations[keys.Pins] == good[d.Name]; {
		case back && reported:
			taken = append(taken, time.Since(since))
			delete(failed, d.Name)
		case !back && !reported && workload.Deployment.Health(d).Failed:
			failed[d.Name] = time.Now()
		}
		if len(taken) == len(names) {
			break
		}
	}
	return taken
}
