//go:build node

package node

import (
	"fmt"
	"maps"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/workload"
)

// kind is a kind of workload: all that the tests know of one kind and not of the others.
type kind struct {
	workload.Kind
	// spec is what an object has in addition to template and selector.
	spec fields
	// hold is a merge patch after which a rollout stops half-way.
	hold string
	// pods is how many the workload has, old and young how many in the middle of a rollout have the template before and after.
	pods, old, young int
	// renewed is true when Kubernetes replaces an old pod by a young one: of DaemonSets it keeps no old template in use.
	renewed bool
}

// fields are parts of a spec by their path, such as "strategy.canary.steps".
type fields map[string]any

var (
	deployment = kind{
		Kind: workload.Deployment,
		// A new pod that is not available yet stops the rollout. The limit is below that of progressDeadlineSeconds.
		hold: `{"spec":{"minReadySeconds":599}}`,
		pods: 1, old: 1, young: 1,
	}
	statefulSet = kind{
		Kind: workload.StatefulSet,
		spec: fields{"replicas": int64(2), "serviceName": "none", "podManagementPolicy": "Parallel"},
		hold: `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":1}}}}`,
		pods: 2, old: 1, young: 1,
	}
	daemonSet = kind{
		Kind: workload.DaemonSet,
		hold: `{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}`,
		pods: 1, old: 1, renewed: true,
	}
	cronJob = kind{
		Kind: workload.CronJob,
		spec: fields{"schedule": "0 0 1 1 *", "suspend": true, "jobTemplate.spec.backoffLimit": int64(100)},
		pods: 1, old: 1,
	}
	rollout = kind{
		Kind: workload.Rollout,
		// Without steps at first, or the first pin might be a canary. Not even one that is created paused waits for it.
		spec: fields{"replicas": int64(2), "strategy.canary": map[string]any{}},
		hold: canaryAt(50),
		pods: 2, old: 1, young: 1,
	}
	everyKind = []kind{deployment, statefulSet, daemonSet, cronJob, rollout}
)

// canaryAt makes a Rollout stop when that part of its pods are canaries, until it is promoted.
func canaryAt(percent int) string {
	return fmt.Sprintf(`{"spec":{"strategy":{"canary":{"steps":[{"setWeight":%d},{"pause":{}}]}}}}`, percent)
}

// web is the name of every workload. Its pods have it as their label app.
const web = "web"

// new makes a workload that confrev does not track.
func (k kind) new(pod corev1.PodSpec) *unstructured.Unstructured {
	labels := map[string]string{"app": web}
	if k.GVK == workload.CronJob.GVK && pod.RestartPolicy == "" {
		// A Job takes no pods that continue forever.
		pod.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(
		&corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod})
	if err != nil {
		panic(err)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(k.GVK)
	u.SetName(web)
	if k.GVK != workload.CronJob.GVK {
		set(u, "spec.selector.matchLabels.app", web)
	}
	for path, value := range k.spec {
		set(u, "spec."+path, value)
	}
	set(u, k.Path, template)
	return u
}

func set(u *unstructured.Unstructured, path string, value any) {
	if err := unstructured.SetNestedField(u.Object, value, strings.Split(path, ".")...); err != nil {
		panic(err)
	}
}

// with makes a kind whose objects have other fields, and so many pods.
func (k kind) with(pods int, spec fields) kind {
	all := fields{}
	maps.Copy(all, k.spec)
	maps.Copy(all, spec)
	k.spec, k.pods = all, pods
	return k
}

// deploy makes a tracked workload, and waits until all its pods are pinned. It returns the pins.
func (w *world) deploy(k kind, pod corev1.PodSpec) (pins string) {
	w.Helper()
	u := k.new(pod)
	u.SetAnnotations(map[string]string{keys.Track: "all"})
	w.Create(u)
	pins = w.waitOtherPins(k, "")
	if k.StartsJobs() {
		w.Kubectl("create", "job", web, "--from=cronjob/"+web)
	}
	w.waitGenerations(generations{pins: k.pods})
	w.waitRolledOut(k)
	return pins
}

// waitRolledOut waits until a workload's rollout is through.
func (w *world) waitRolledOut(k kind) {
	w.Helper()
	w.Eventually("the rollout is through", func() string { return k.Progress(w.object(k)).Left })
}

// waitOtherPins waits until a workload's template has another pin of each of its sources, and returns its pins.
func (w *world) waitOtherPins(k kind, before string) (pins string) {
	w.Helper()
	earlier, err := pin.Parse(before)
	w.Must(err)
	w.Eventually("other pins", func() string {
		pins = w.pins(k)
		now, err := pin.Parse(pins)
		w.Must(err)
		for source, p := range now {
			if p == earlier[source] {
				return "they are " + pins
			}
		}
		if len(now) == 0 {
			return "there are none"
		}
		return ""
	})
	return pins
}

// pins returns the pins of a workload's template.
func (w *world) pins(k kind) string {
	w.Helper()
	return k.PinsText(w.object(k))
}

func (w *world) object(k kind) client.Object {
	w.Helper()
	obj := k.New()
	w.Must(w.Get(web, obj))
	return obj
}

// halt makes the workload's next rollout stop half-way.
func (w *world) halt(k kind) {
	w.Helper()
	if k.hold != "" {
		w.Kubectl("patch", k.Resource(), web, "--type=merge", "--patch", k.hold)
	}
}

// generations count pods by their pins.
type generations map[string]int

// waitGenerations waits until the pods are those, and returns them by their pins.
func (w *world) waitGenerations(want generations) map[string][]corev1.Pod {
	w.Helper()
	maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
	var pods map[string][]corev1.Pod
	w.Eventually("pods by their pins", func() string {
		pods = map[string][]corev1.Pod{}
		got := generations{}
		for _, pod := range w.pods() {
			pins := pod.Annotations[keys.Pins]
			pods[pins] = append(pods[pins], pod)
			got[pins]++
		}
		return cmp.Diff(want, got)
	})
	return pods
}
