//go:build node

package node

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// Rule 1: a pod whose revision is lost waits for it, although the template calls the source optional. Without a pin, the kubelet
// starts such a pod with nothing.
func TestAPodWaitsForARevisionThatIsLost(t *testing.T) {
	t.Parallel()
	const revision = "app-5f7d8c9b2k"
	whole := map[string]option{
		"envFrom":   byEnvFrom("configmap/app", gen.Optional(true)),
		"volume":    byVolume("configmap/app", gen.Optional(true)),
		"projected": byProjected(gen.Part("configmap/app", gen.Optional(true))),
	}
	for way, option := range whole {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			pod := func(name string, annotations map[string]string) *corev1.Pod {
				return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: probe(option)}
			}
			w.Create(pod("pinned", map[string]string{keys.Pins: "configmap/app=" + revision + "@1"}))
			w.Create(pod("unpinned", nil))
			w.Eventually("the pod without pins to run", func() string { return w.notReady("unpinned") })
			w.Eventually("the kubelet to say what the pinned pod waits for", func() string { return w.saysMissing("pinned", revision) })
			if w.notReady("pinned") == "" {
				t.Error("it runs without its revision")
			}
			w.Create(configMap(revision, "mode", "blue"))
			w.Eventually("the pinned pod to run with its revision", func() string { return w.notReady("pinned") })
			var running corev1.Pod
			w.Must(w.Get("pinned", &running))
			if got := w.startedWith(running); len(got.Env)+len(got.Files) != 1 {
				t.Errorf("it read %+v, want its one key", got)
			}
		})
	}
}

// notReady returns why a pod is not ready; nothing if it is.
func (w *world) notReady(name string) string {
	var pod corev1.Pod
	w.Must(w.Get(name, &pod))
	if !env.Ready(&pod) {
		return fmt.Sprintf("its status is %v", pod.Status.ContainerStatuses)
	}
	return ""
}

// saysMissing looks for what the kubelet says of an object that a pod cannot start without.
func (w *world) saysMissing(pod, object string) string {
	var all corev1.EventList
	w.Must(cluster.Client.List(w.Ctx, &all, client.InNamespace(w.NS)))
	for _, event := range all.Items {
		if event.InvolvedObject.Name == pod && event.Type == corev1.EventTypeWarning && strings.Contains(event.Message, fmt.Sprintf("configmap %q not found", object)) {
			return ""
		}
	}
	return "nothing is said"
}

// Rule 6: once an optional source is deleted, containers start with nothing, as they would without it; and after an undo with what they had,
// although the source is gone.
func TestContainersStartWithoutDeletedSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "mode", "blue"))
	pins := w.deploy(deployment, probe(byEnvFrom("configmap/app", gen.Optional(true)), byVolume("configmap/app", gen.Optional(true))))
	blue := reading{Env: map[string]string{"CFG_ENVFROM_mode": "blue"}, Files: map[string]string{volumePath("configmap/app", "mode"): "blue"}}
	w.checkReading("at first", w.startedWith(w.waitPods(1)[0]), blue)
	w.Kubectl("delete", "configmap", "app")
	w.waitOtherPins(deployment, pins)
	w.Kubectl("rollout", "status", "deployment/"+web)
	w.checkReading("without the source", w.startedWith(w.waitPods(1)[0]), reading{Env: map[string]string{}, Files: map[string]string{}})
	w.Kubectl("rollout", "undo", "deployment/"+web)
	w.Kubectl("rollout", "status", "deployment/"+web)
	w.checkReading("undone", w.startedWith(w.waitPods(1)[0]), blue)
}
