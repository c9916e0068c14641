//go:build reliability

package reliability

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// source is the ConfigMap of all tests, and color its key.
const source, color = "app", "color"

// world is a namespace of its own, and what users do in it.
type world struct {
	*testing.T
	env.World
	// rollouts is how often workloads had rolled out when noteRollouts was called.
	rollouts map[string]int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{T: t, World: env.NewWorld(t, cluster, "reliability")}
}

func configMap(name, value string) *corev1.ConfigMap {
	return gen.Unsaved(gen.ConfigMap(name, gen.Data(color, value)))
}

// deployment makes a tracked Deployment with one pod, which ends at once when it is to.
func deployment(name string, options ...gen.DeploymentModifier) *appsv1.Deployment {
	first := []gen.DeploymentModifier{gen.Tracking("all"), gen.Replicas(1), gen.Template(gen.EnvFrom("configmap/"+source), func(spec *corev1.PodSpec) {
		spec.TerminationGracePeriodSeconds = new(int64(0))
	})}
	return gen.Unsaved(gen.Deployment(name, append(first, options...)...))
}

// statefulSet makes a StatefulSet that has all that a Deployment has.
func statefulSet(name string, options ...gen.DeploymentModifier) *appsv1.StatefulSet {
	d := deployment(name, options...)
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name, Annotations: d.Annotations},
		Spec: appsv1.StatefulSetSpec{
			Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template, RevisionHistoryLimit: d.Spec.RevisionHistoryLimit, ServiceName: name,
		},
	}
}

// subject is a workload as these tests look at it.
type subject struct {
	client.Object
	kind     string
	template corev1.PodTemplateSpec
	// rolling complains while its controller has not rolled the template out.
	rolling string
	// rollouts is how many templates it has had.
	rollouts string
}

func (s subject) String() string { return s.kind + "/" + s.GetName() }

// subjects lists the workloads of the namespace, without the barrier.
func (w *world) subjects() (all []subject) {
	w.Helper()
	deployments, sets := &appsv1.DeploymentList{}, &appsv1.StatefulSetList{}
	w.List(deployments)
	w.List(sets)
	for _, d := range deployments.Items {
		if d.Name == "barrier" {
			continue
		}
		rolling := ""
		if s := d.Status; s.ObservedGeneration < d.Generation || s.UpdatedReplicas != *d.Spec.Replicas || s.Replicas != *d.Spec.Replicas || s.AvailableReplicas != *d.Spec.Replicas {
			rolling = fmt.Sprintf("%s rolls out: %+v", d.Name, s)
		}
		all = append(all, subject{&d, "deployment", d.Spec.Template, rolling, d.Annotations["deployment.kubernetes.io/revision"]})
	}
	for _, s := range sets.Items {
		rolling := ""
		if st := s.Status; st.ObservedGeneration < s.Generation || st.UpdateRevision != st.CurrentRevision || st.AvailableReplicas != *s.Spec.Replicas {
			rolling = fmt.Sprintf("%s rolls out: %+v", s.Name, st)
		}
		all = append(all, subject{&s, "statefulset", s.Spec.Template, rolling, fmt.Sprint(s.Generation)})
	}
	return all
}

// rolledOutOnce returns what complains of workloads that have not rolled out just once since then. What they had before does not count: one that
// the webhook did not pin in time has rolled out twice.
func (w *world) rolledOutOnce() (check func()) {
	w.Helper()
	generations := map[string]int64{}
	for _, s := range w.subjects() {
		generations[s.GetName()] = s.GetGeneration()
	}
	return func() {
		w.Helper()
		for _, s := range w.subjects() {
			if n := s.GetGeneration() - generations[s.GetName()]; n != 1 {
				w.Errorf("%s has rolled out %d times", s, n)
			}
		}
	}
}

// pinned returns the value that the pods of a template get, or "" without a pin.
func (w *world) pinned(template corev1.PodTemplateSpec) string {
	w.Helper()
	pins, err := pin.Parse(template.Annotations[keys.Pins])
	w.Must(err)
	p, ok := pins[pin.Source{Kind: pin.ConfigMap, Name: source}]
	if !ok {
		return ""
	}
	cm := &corev1.ConfigMap{}
	if err := w.Get(p.Revision, cm); err != nil {
		return err.Error()
	}
	return cm.Data[color]
}

// notPinned complains unless all workloads are pinned to a value and rolled out, except for those of other values.
func (w *world) notPinned(value string, others map[string]string) string {
	w.Helper()
	for _, s := range w.subjects() {
		want, ok := others[s.GetName()]
		if !ok {
			want = value
		}
		if got := w.pinned(s.template); got != want {
			return fmt.Sprintf("%s is pinned to %q, want %q", s, got, want)
		}
		if s.rolling != "" {
			return s.rolling
		}
	}
	return ""
}

// waitPinned waits until all workloads are pinned to a value and rolled out.
func (w *world) waitPinned(value string) {
	w.Helper()
	w.Eventually("all have "+value, func() string { return w.notPinned(value, nil) })
}

// notHeld complains unless confrev has noted that a workload is held from the source's content.
func (w *world) notHeld(name string) string {
	w.Helper()
	for _, s := range w.subjects() {
		if note := s.GetAnnotations()[keys.Held]; s.GetName() == name && !strings.HasPrefix(note, "configmap/"+source+"=") {
			return fmt.Sprintf("%s is not held: %q", name, note)
		}
	}
	return ""
}

// annotate sets an annotation of an object.
func (w *world) annotate(obj client.Object, name, key, value string) {
	w.Helper()
	obj.SetNamespace(w.NS)
	obj.SetName(name)
	w.Must(cluster.Client.Patch(w.Ctx, obj, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value))))
}

// deploy changes the image of a Deployment.
func (w *world) deploy(name, image string) {
	w.Helper()
	w.Kubectl("set", "image", "deployment/"+name, "app="+image)
}

// stays waits until nothing complains for so long: to see that something has ended takes a while in which it does not happen.
func (w *world) stays(d time.Duration, check func() (complaint string)) {
	w.Helper()
	since := time.Now()
	w.Eventually("nothing happens", func() string {
		if complaint := check(); complaint != "" {
			since = time.Now()
			return complaint
		}
		if time.Since(since) < d {
			return "not for long enough yet"
		}
		return ""
	})
}
