//go:build perf

package perf

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// undos is how many changes fail, one after the other.
const undos = 50

// BenchmarkUndo measures how long it takes from the second crash of a container, as the API server shows it, until the pins are back. Each is in
// the change to another Deployment.
func BenchmarkUndo(b *testing.B) {
	w := newWorld(b)
	var names []string
	for i := range undos {
		name := fmt.Sprintf("web-%02d", i)
		names = append(names, name)
		source := configMap(name, "first")
		source.Annotations = map[string]string{keys.OnFailure: "undo", keys.Bake: "1h"}
		w.Must(w.TryCreate(source))
		w.Must(w.TryCreate(gen.Unsaved(gen.Deployment(name, gen.Tracking("all"), gen.Replicas(1), gen.Template(gen.EnvFrom("configmap/"+name))))))
	}
	w.Must(cluster.Install(w.Ctx, "secrets.enabled=true", "failFast.enabled=true"))
	_, templates := w.startPinning(workload.Deployment, names, "--settle", "0s", "--fail-fast")
	t := newTable(b, "from the first sign until the pins are back", "undos", "median", "max")
	for b.Loop() {
		w.idleRollouts(names)
		var took []time.Duration
		for _, name := range names {
			w.edit(name, "faulty")
			templates.changed(keys.Pins, name)
			sign := w.crashes(name)
			took = append(took, templates.changed(keys.Pins, name)[0].Sub(sign))
		}
		t.row("a crash", len(took), middle(took), quantile(took, 1))
		measured(b, undos).took("crash to undone", took)
	}
	t.print()
}

// crashes reports, as a kubelet would, that the new pod of a Deployment crashed twice.
func (w *world) crashes(name string) (sign time.Time) {
	w.Helper()
	w.Eventually("its new pod crashes", func() string {
		pods := &corev1.PodList{}
		w.List(pods, client.MatchingLabels{"app": name})
		want := w.Deployment(name).Spec.Template.Annotations[keys.Pins]
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.Annotations[keys.Pins] != want || len(pod.Status.ContainerStatuses) == 0 || pod.DeletionTimestamp != nil {
				continue
			}
			before := client.MergeFrom(pod.DeepCopy())
			status := &pod.Status.ContainerStatuses[0]
			status.RestartCount, status.State = 1, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
			status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, FinishedAt: metav1.Now()}
			if err := w.Cluster.Client.Status().Patch(w.Ctx, pod, before); err != nil {
				return err.Error()
			}
			sign = time.Now()
			return ""
		}
		return fmt.Sprintf("none of %d pods", len(pods.Items))
	})
	return sign
}
