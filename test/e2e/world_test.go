//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
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
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
	w.must(cluster.Client.Create(w.ctx, ns))
	w.ns = ns.Name
	t.Cleanup(func() {
		if err := cluster.Delete(context.Background(), ns); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// kubectl runs kubectl in the namespace and gives what it printed.
func (w *world) kubectl(args ...string) string {
	w.Helper()
	return w.kubectlIn("", args...)
}

func (w *world) kubectlIn(input string, args ...string) string {
	w.Helper()
	out, err := cluster.Run(w.ctx, input, "kubectl", append([]string{"--namespace", w.ns}, args...)...)
	w.must(err)
	return out
}

// kubectlEdit runs kubectl edit with a command of the shell as the editor.
func (w *world) kubectlEdit(editor string, objects ...string) error {
	_, err := cluster.RunEnv(w.ctx, []string{"KUBE_EDITOR=" + editor}, "", "kubectl", append([]string{"--namespace", w.ns, "edit"}, objects...)...)
	return err
}

// eventually waits until check has nothing to complain of.
func (w *world) eventually(what string, check func() (complaint string)) {
	w.Helper()
	w.within(patience, what, check)
}

// within is eventually with a bound of its own, for what comes by the clock.
func (w *world) within(bound time.Duration, what string, check func() (complaint string)) {
	w.Helper()
	complaint := "not looked at"
	for began := time.Now(); time.Since(began) < bound; time.Sleep(pauseAfter(time.Since(began))) {
		if complaint = check(); complaint == "" {
			return
		}
	}
	w.Fatalf("%s: still not after %s: %s\n%s", what, bound, complaint, w.describe())
}

// pauseAfter is how long to wait before looking again at what has not come about for so long: each look costs the machine
// time that the thing waited for may need.
func pauseAfter(waited time.Duration) time.Duration {
	return min(max(waited/10, 20*time.Millisecond), 300*time.Millisecond)
}

// describe shows the namespace as a user would look at it.
func (w *world) describe() string {
	out, err := cluster.Kubectl(context.Background(), "--namespace", w.ns, "get",
		"deployments,replicasets,configmaps,events", "--show-labels", "-o", "wide")
	if err != nil {
		return err.Error()
	}
	return out
}

func (w *world) get(name string, obj client.Object) error {
	return cluster.Client.Get(w.ctx, types.NamespacedName{Namespace: w.ns, Name: name}, obj)
}

// configMap makes a ConfigMap of key, value, key, value, ….
func configMap(name string, data ...string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{}}
	for i := 0; i < len(data); i += 2 {
		cm.Data[data[i]] = data[i+1]
	}
	return cm
}

func (w *world) create(objects ...client.Object) {
	w.Helper()
	for _, obj := range objects {
		obj.SetNamespace(w.ns)
		w.must(cluster.Client.Create(w.ctx, obj))
	}
}

// edit sets one key of a ConfigMap.
func (w *world) edit(name, key, value string) {
	w.Helper()
	patch := fmt.Sprintf(`{"data":{%q:%q}}`, key, value)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}}
	w.must(cluster.Client.Patch(w.ctx, cm, client.RawPatch(types.MergePatchType, []byte(patch))))
}

func (w *world) deployment(name string) *appsv1.Deployment {
	w.Helper()
	d := &appsv1.Deployment{}
	w.must(w.get(name, d))
	return d
}

func (w *world) pinsText(name string) string {
	w.Helper()
	return w.deployment(name).Spec.Template.Annotations[keys.Pins]
}

func (w *world) pins(name string) pin.Set {
	w.Helper()
	pins, err := pin.Parse(w.pinsText(name))
	w.must(err)
	return pins
}

func (w *world) pinOf(deployment, source string) pin.Pin {
	w.Helper()
	return w.pins(deployment)[pin.Source{Kind: pin.ConfigMap, Name: source}]
}

// waitPinned waits until a Deployment has rolled out a revision of the source in which the key has the value, and gives
// the pin.
func (w *world) waitPinned(deployment, source, key, value string) pin.Pin {
	w.Helper()
	var pinned pin.Pin
	w.eventually(fmt.Sprintf("%s pinned to %s with %s=%q", deployment, source, key, value), func() string {
		pinned = w.pinOf(deployment, source)
		if pinned == (pin.Pin{}) {
			return "no pin"
		}
		revision := &corev1.ConfigMap{}
		if err := w.get(pinned.Revision, revision); err != nil {
			return err.Error()
		}
		if revision.Data[key] != value {
			return fmt.Sprintf("pinned to %s with %q", pinned, revision.Data[key])
		}
		return w.notRolledOut(deployment)
	})
	return pinned
}

// notRolledOut complains while a Deployment's controller has not caught up, or some of its pods are old or not ready.
func (w *world) notRolledOut(name string) string {
	d := w.deployment(name)
	want := *d.Spec.Replicas
	s := d.Status
	if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != want || s.Replicas != want || s.AvailableReplicas != want {
		return fmt.Sprintf("rollout under way: %d of %d updated, %d available", s.UpdatedReplicas, want, s.AvailableReplicas)
	}
	return ""
}

func (w *world) replicaSets(deployment string) []appsv1.ReplicaSet {
	w.Helper()
	all := &appsv1.ReplicaSetList{}
	w.must(cluster.Client.List(w.ctx, all, client.InNamespace(w.ns)))
	uid := w.deployment(deployment).UID
	return slices.DeleteFunc(all.Items, func(rs appsv1.ReplicaSet) bool {
		owner := metav1.GetControllerOf(&rs)
		return owner == nil || owner.UID != uid
	})
}

// revisions lists the revisions of a source.
func (w *world) revisions(source string) []corev1.ConfigMap {
	w.Helper()
	all := &corev1.ConfigMapList{}
	w.must(cluster.Client.List(w.ctx, all, client.InNamespace(w.ns), client.HasLabels{keys.Content}))
	return slices.DeleteFunc(all.Items, func(cm corev1.ConfigMap) bool { return cm.Annotations[keys.SourceName] != source })
}

func (w *world) gone(name string) bool {
	return apierrors.IsNotFound(w.get(name, &corev1.ConfigMap{}))
}

// undo rolls a Deployment back as a user does.
func (w *world) undo(deployment string, args ...string) {
	w.Helper()
	w.kubectl(append([]string{"rollout", "undo", "deployment/" + deployment}, args...)...)
}

// rolloutRevision gives the number by which `kubectl rollout undo --to-revision` knows the template with a pin.
func (w *world) rolloutRevision(deployment string, pinned pin.Pin) string {
	w.Helper()
	for _, rs := range w.replicaSets(deployment) {
		if strings.HasSuffix(rs.Spec.Template.Annotations[keys.Pins], "="+pinned.String()) {
			return rs.Annotations["deployment.kubernetes.io/revision"]
		}
	}
	w.Fatalf("no ReplicaSet of %s is pinned to %s", deployment, pinned)
	return ""
}

// waitHeld waits until confrev has noted that a Deployment is held.
func (w *world) waitHeld(deployment, source string) {
	w.Helper()
	w.eventually(deployment+" held", func() string {
		d := w.deployment(deployment)
		notes := d.Annotations[keys.Held] + "," + d.Annotations[keys.HeldHashes]
		for note := range strings.SplitSeq(notes, ",") {
			if strings.HasPrefix(note, "configmap/"+source+"=") && !strings.HasSuffix(note, ";ended") {
				return ""
			}
		}
		return fmt.Sprintf("notes are %q", notes)
	})
}

// barrier waits until confrev has dealt with all that was changed before: it makes a later change elsewhere in the
// namespace and waits until that one has settled and rolled out.
func (w *world) barrier() {
	w.Helper()
	stamp := strconv.FormatInt(time.Now().UnixNano(), 10)
	if w.gone("barrier") {
		w.create(configMap("barrier", "at", stamp), deployment("barrier", replicas(0), envFrom("barrier")))
		w.waitPinned("barrier", "barrier", "at", stamp)
		stamp += "'"
	}
	w.edit("barrier", "at", stamp)
	w.owned(w.waitPinned("barrier", "barrier", "at", stamp).Revision, "barrier")
}

// events gives the notes of the events about an object with the given reason.
func (w *world) events(reason, regarding string) []string {
	w.Helper()
	all := &eventsv1.EventList{}
	w.must(cluster.Client.List(w.ctx, all, client.InNamespace(w.ns)))
	var notes []string
	for _, e := range all.Items {
		if e.Reason == reason && e.Regarding.Name == regarding {
			notes = append(notes, e.Note)
		}
	}
	return notes
}

func (w *world) waitEvent(reason, regarding, contains string) {
	w.Helper()
	w.eventually("event "+reason+" on "+regarding, func() string {
		notes := w.events(reason, regarding)
		if !slices.ContainsFunc(notes, func(note string) bool { return strings.Contains(note, contains) }) {
			return fmt.Sprintf("want one with %q, have %q", contains, notes)
		}
		return ""
	})
}

// deploymentOption changes a Deployment that is about to be created.
type deploymentOption func(*appsv1.Deployment)

// deployment makes a tracked Deployment with one container.
func deployment(name string, options ...deploymentOption) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{keys.Track: "all"}},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: new(int64(0)),
					Containers:                    []corev1.Container{{Name: "app", Image: "app:1"}},
				},
			},
		},
	}
	for _, option := range options {
		option(d)
	}
	return d
}

func tracking(text string) deploymentOption {
	return func(d *appsv1.Deployment) { d.Annotations[keys.Track] = text }
}

func annotated(key, value string) deploymentOption {
	return func(d *appsv1.Deployment) { d.Annotations[key] = value }
}

func replicas(n int32) deploymentOption {
	return func(d *appsv1.Deployment) { d.Spec.Replicas = &n }
}

func historyLimit(n int32) deploymentOption {
	return func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = &n }
}

// envFrom takes all keys of ConfigMaps.
func envFrom(sources ...string) deploymentOption {
	return func(d *appsv1.Deployment) {
		c := &d.Spec.Template.Spec.Containers[0]
		for _, source := range sources {
			c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: source}}})
		}
	}
}

// envKey takes one key of a ConfigMap.
func envKey(source, key string, optional bool) deploymentOption {
	return func(d *appsv1.Deployment) {
		c := &d.Spec.Template.Spec.Containers[0]
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("E%d", len(c.Env)), ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: source}, Key: key, Optional: &optional}}})
	}
}

// volume mounts a ConfigMap.
func volume(source string) deploymentOption {
	return func(d *appsv1.Deployment) {
		spec := &d.Spec.Template.Spec
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: fmt.Sprintf("v%d", len(spec.Volumes)),
			VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: source}}}})
	}
}

func untracked() deploymentOption {
	return func(d *appsv1.Deployment) { delete(d.Annotations, keys.Track) }
}

func (w *world) writeFile(dir, name, text string) string {
	w.Helper()
	path := filepath.Join(dir, name)
	w.must(os.WriteFile(path, []byte(text), 0o600))
	return path
}
