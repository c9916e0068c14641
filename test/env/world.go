package env

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/gen"
)

// T is what a World needs of a test, a benchmark or the demo.
type T interface {
	Context() context.Context
	Helper()
	Errorf(format string, args ...any)
	// Fatalf ends the test; it does not return.
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// World is a namespace of its own for one test, and what users do and see in it. What goes wrong ends the test.
type World struct {
	Cluster *Cluster
	Ctx     context.Context
	NS      string
	// Patience bounds every wait for something that must happen.
	Patience time.Duration

	t T
}

// Patience is enough for a machine whose processors have fifteen times as much to do as they can.
const Patience = 4 * time.Minute

// NewWorld creates a namespace whose name begins with prefix, and deletes it when the test ends.
func NewWorld(t T, c *Cluster, prefix string) World {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"}}
	Create(t, c.Client, ns)
	return c.WorldIn(t, ns.Name)
}

// Create creates an object, and deletes it when the test ends.
func Create(t T, c client.Client, obj client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatalf("create %T %s: %v", obj, obj.GetName(), err)
	}
	t.Cleanup(func() {
		// The test's own context has ended.
		if err := client.IgnoreNotFound(c.Delete(context.Background(), obj)); err != nil {
			t.Errorf("delete %T %s: %v", obj, obj.GetName(), err)
		}
	})
}

// WorldIn returns a world in a namespace that exists: another test's, for a subtest.
func (c *Cluster) WorldIn(t T, namespace string) World {
	return World{Cluster: c, Ctx: t.Context(), NS: namespace, Patience: Patience, t: t}
}

// Must ends the test if there is an error.
func (w *World) Must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v", err)
	}
}

// Kubectl runs kubectl in the namespace and returns what it printed.
func (w *World) Kubectl(args ...string) string {
	w.t.Helper()
	return w.KubectlIn("", args...)
}

// KubectlIn does what Kubectl does, with a standard input.
func (w *World) KubectlIn(input string, args ...string) string {
	w.t.Helper()
	out, err := w.Cluster.Run(w.Ctx, input, "kubectl", append([]string{"--namespace", w.NS}, args...)...)
	w.Must(err)
	return out
}

// Eventually waits until check has nothing to complain of.
func (w *World) Eventually(what string, check func() (complaint string)) {
	w.t.Helper()
	w.Within(w.Patience, what, check)
}

// Within does what Eventually does, with a bound of its own, for what comes by the clock.
func (w *World) Within(bound time.Duration, what string, check func() (complaint string)) {
	w.t.Helper()
	if complaint := w.Poll(bound, check); complaint != "" {
		w.t.Fatalf("%s: still not after %s: %s\n%s", what, bound, complaint, w.Describe())
	}
}

// Poll asks check until it has nothing to complain of, or the bound is over, and returns its last complaint.
func (w *World) Poll(bound time.Duration, check func() (complaint string)) (complaint string) {
	for began := time.Now(); ; time.Sleep(pauseAfter(time.Since(began))) {
		if complaint = check(); complaint == "" || time.Since(began) > bound || w.Ctx.Err() != nil {
			return complaint
		}
	}
}

// pauseAfter returns how long to wait before looking again at what has not come about for so long: each look costs the machine
// time that the thing waited for may need.
func pauseAfter(waited time.Duration) time.Duration {
	return min(max(waited/10, 20*time.Millisecond), 300*time.Millisecond)
}

// Describe shows the namespace as a user would look at it.
func (w *World) Describe() string {
	out, err := w.Cluster.Kubectl(context.WithoutCancel(w.Ctx), "--namespace", w.NS, "get",
		"all,configmaps,events", "--show-labels", "-o", "wide")
	if err != nil {
		return err.Error()
	}
	return out
}

// Get reads an object of the namespace.
func (w *World) Get(name string, obj client.Object) error {
	return w.Cluster.Client.Get(w.Ctx, types.NamespacedName{Namespace: w.NS, Name: name}, obj)
}

// List lists objects of the namespace.
func (w *World) List(into client.ObjectList, options ...client.ListOption) {
	w.t.Helper()
	w.Must(w.Cluster.Client.List(w.Ctx, into, append(options, client.InNamespace(w.NS))...))
}

// Create creates objects in the namespace. What only the API server sets, it sets.
func (w *World) Create(objects ...client.Object) {
	w.t.Helper()
	for _, obj := range objects {
		w.Must(w.TryCreate(obj))
	}
}

// TryCreate does what Create does for one object, and returns the API server's error.
func (w *World) TryCreate(obj client.Object) error {
	obj.SetNamespace(w.NS)
	obj.SetResourceVersion("")
	return w.Cluster.Client.Create(w.Ctx, obj)
}

// Edit sets one key of a ConfigMap.
func (w *World) Edit(name, key, value string) {
	w.t.Helper()
	w.merge(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, fmt.Sprintf(`{"data":{%q:%q}}`, key, value))
}

// EditSecret sets one key of a Secret.
func (w *World) EditSecret(name, key, value string) {
	w.t.Helper()
	w.merge(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, fmt.Sprintf(`{"stringData":{%q:%q}}`, key, value))
}

func (w *World) merge(obj client.Object, patch string) {
	w.t.Helper()
	obj.SetNamespace(w.NS)
	w.Must(w.Cluster.Client.Patch(w.Ctx, obj, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// Deployment reads a Deployment.
func (w *World) Deployment(name string) *appsv1.Deployment {
	w.t.Helper()
	d := &appsv1.Deployment{}
	w.Must(w.Get(name, d))
	return d
}

// ReplicaSets lists those of a Deployment.
func (w *World) ReplicaSets(deployment string) []appsv1.ReplicaSet {
	w.t.Helper()
	all := &appsv1.ReplicaSetList{}
	w.List(all)
	uid := w.Deployment(deployment).UID
	return slices.DeleteFunc(all.Items, func(rs appsv1.ReplicaSet) bool {
		owner := metav1.GetControllerOf(&rs)
		return owner == nil || owner.UID != uid
	})
}

// Pods lists the pods that have the label app=name and are not on their way out.
func (w *World) Pods(name string) []corev1.Pod {
	w.t.Helper()
	all := &corev1.PodList{}
	w.List(all, client.MatchingLabels{"app": name})
	return slices.DeleteFunc(all.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

// Ready reports whether a pod is ready.
func Ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// PinsText returns the annotation of a Deployment's pins.
func (w *World) PinsText(deployment string) string {
	w.t.Helper()
	return w.Deployment(deployment).Spec.Template.Annotations[keys.Pins]
}

// Pins returns a Deployment's pins.
func (w *World) Pins(deployment string) pin.Set {
	w.t.Helper()
	pins, err := pin.Parse(w.PinsText(deployment))
	w.Must(err)
	return pins
}

// PinOf returns the pin of a ConfigMap in a Deployment.
func (w *World) PinOf(deployment, source string) pin.Pin {
	w.t.Helper()
	return w.Pins(deployment)[pin.Source{Kind: pin.ConfigMap, Name: source}]
}

// WaitPinned waits until a Deployment has rolled out a revision of the source in which the key has the value, and returns
// the pin.
func (w *World) WaitPinned(deployment, source, key, value string) pin.Pin {
	w.t.Helper()
	var pinned pin.Pin
	w.Eventually(fmt.Sprintf("%s pinned to %s with %s=%q", deployment, source, key, value), func() string {
		pinned = w.PinOf(deployment, source)
		if pinned == (pin.Pin{}) {
			return "no pin"
		}
		revision := &corev1.ConfigMap{}
		if err := w.Get(pinned.Revision, revision); err != nil {
			return err.Error()
		}
		if revision.Data[key] != value {
			return fmt.Sprintf("pinned to %s with %q", pinned, revision.Data[key])
		}
		return w.NotRolledOut(deployment)
	})
	return pinned
}

// NotRolledOut complains while a Deployment's controller has not caught up, or some of its pods are old or not ready.
func (w *World) NotRolledOut(deployment string) (complaint string) {
	d := w.Deployment(deployment)
	want := *d.Spec.Replicas
	s := d.Status
	if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != want || s.Replicas != want || s.AvailableReplicas != want {
		return fmt.Sprintf("rollout under way: %d of %d updated, %d available", s.UpdatedReplicas, want, s.AvailableReplicas)
	}
	return ""
}

// Revisions lists the revisions of a ConfigMap.
func (w *World) Revisions(source string) []corev1.ConfigMap {
	w.t.Helper()
	all := &corev1.ConfigMapList{}
	w.List(all, client.HasLabels{keys.Content})
	return slices.DeleteFunc(all.Items, func(cm corev1.ConfigMap) bool { return cm.Annotations[keys.SourceName] != source })
}

// Gone reports whether there is no such ConfigMap.
func (w *World) Gone(name string) bool {
	return apierrors.IsNotFound(w.Get(name, &corev1.ConfigMap{}))
}

// Undo rolls a Deployment back as a user does.
func (w *World) Undo(deployment string, args ...string) {
	w.t.Helper()
	w.Kubectl(append([]string{"rollout", "undo", "deployment/" + deployment}, args...)...)
}

// WaitHeld waits until confrev has noted that a Deployment is held.
func (w *World) WaitHeld(deployment, source string) {
	w.t.Helper()
	w.Eventually(deployment+" held", func() string {
		d := w.Deployment(deployment)
		notes := d.Annotations[keys.Held] + "," + d.Annotations[keys.HeldHashes]
		for note := range strings.SplitSeq(notes, ",") {
			if strings.HasPrefix(note, "configmap/"+source+"=") && !strings.HasSuffix(note, ";ended") {
				return ""
			}
		}
		return fmt.Sprintf("notes are %q", notes)
	})
}

// barrier is the name of the Deployment and the ConfigMap of Barrier.
const barrier = "barrier"

// Barrier waits until confrev has dealt with all that was changed before: it makes a later change elsewhere in the
// namespace and waits until that one has settled and rolled out.
func (w *World) Barrier() {
	w.t.Helper()
	stamp := strconv.FormatInt(time.Now().UnixNano(), 10)
	if w.Gone(barrier) {
		source := gen.ConfigMap(barrier, map[string]string{"at": stamp})
		source.Annotations = map[string]string{keys.After: "none"}
		w.Create(source, gen.Deployment(barrier, gen.Tracking("all"), gen.Replicas(0), gen.Template(gen.EnvFrom("configmap/"+barrier))))
		w.WaitPinned(barrier, barrier, "at", stamp)
		stamp += "'"
	}
	w.Edit(barrier, "at", stamp)
	w.WaitOwned(w.WaitPinned(barrier, barrier, "at", stamp).Revision, barrier)
}

// WaitOwned waits until just these Deployments and their ReplicaSets that pin it own a revision.
func (w *World) WaitOwned(revision string, deployments ...string) {
	w.t.Helper()
	w.Eventually(fmt.Sprintf("%s owned by %q and their ReplicaSets", revision, deployments), func() string {
		var want []string
		for _, d := range deployments {
			want = append(want, string(w.Deployment(d).UID))
			for _, rs := range w.ReplicaSets(d) {
				if strings.Contains(rs.Spec.Template.Annotations[keys.Pins], "="+revision+"@") {
					want = append(want, string(rs.UID))
				}
			}
		}
		obj := &corev1.ConfigMap{}
		if err := w.Get(revision, obj); err != nil {
			return err.Error()
		}
		var got []string
		for _, o := range obj.OwnerReferences {
			if *o.Controller || *o.BlockOwnerDeletion {
				w.t.Fatalf("owner %s of %s controls it or blocks its owner", o.Name, revision)
			}
			got = append(got, string(o.UID))
		}
		slices.Sort(want)
		slices.Sort(got)
		if len(want) <= len(deployments) || !slices.Equal(want, got) {
			return fmt.Sprintf("owners %q, want %q", got, want)
		}
		return ""
	})
}

// Events returns the notes of the events about an object with the given reason.
func (w *World) Events(reason, regarding string) []string {
	w.t.Helper()
	all := &eventsv1.EventList{}
	w.List(all)
	var notes []string
	for _, e := range all.Items {
		if e.Reason == reason && e.Regarding.Name == regarding {
			notes = append(notes, e.Note)
		}
	}
	return notes
}

// AfterThisSecond waits until what happens next has a later time than all before: the API's times have seconds.
func (w *World) AfterThisSecond() {
	w.t.Helper()
	now := time.Now().Truncate(time.Second)
	w.Eventually("the next second", func() string {
		if time.Now().Truncate(time.Second).Equal(now) {
			return "it is the same second"
		}
		return ""
	})
}

// WaitEvent waits for an event about an object whose note contains a text.
func (w *World) WaitEvent(reason, regarding, contains string) {
	w.t.Helper()
	w.Eventually("event "+reason+" on "+regarding, func() string {
		notes := w.Events(reason, regarding)
		if !slices.ContainsFunc(notes, func(note string) bool { return strings.Contains(note, contains) }) {
			return fmt.Sprintf("want one with %q, have %q", contains, notes)
		}
		return ""
	})
}

// WithoutConfrev kills confrev, lets something happen, and starts confrev again.
func (w *World) WithoutConfrev(confrev *Confrev, do func()) {
	w.t.Helper()
	w.Must(confrev.Kill())
	// Whatever happens, the other tests need it.
	defer func() { w.Must(confrev.Start(context.WithoutCancel(w.Ctx))) }()
	do()
}
