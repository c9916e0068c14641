//go:build perf

package perf

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
)

// patience bounds every wait for something that must happen.
const patience = 5 * time.Minute

// world is a namespace of its own for one benchmark, and what users do in it.
type world struct {
	*testing.B
	ctx context.Context
	ns  string
}

// newWorld makes a namespace, and waits at the end until it is gone: its deletion would slow the next benchmark.
func newWorld(b *testing.B) *world {
	b.Helper()
	w := &world{B: b, ctx: b.Context()}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "perf-"}}
	w.must(cluster.Client.Create(w.ctx, ns))
	w.ns = ns.Name
	b.Cleanup(func() {
		if err := remove(context.Background(), ns); err != nil {
			b.Error(err)
		}
	})
	return w
}

func remove(ctx context.Context, ns *corev1.Namespace) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if err := cluster.Client.Delete(ctx, ns); apierrors.IsNotFound(err) {
			return nil
		} else if err != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete namespace %s: %w", ns.Name, err)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) create(obj client.Object) error {
	obj.SetNamespace(w.ns)
	return cluster.Client.Create(w.ctx, obj)
}

// creating is how many requests set-up has in flight.
const creating = 16

// many calls do for 0 to n-1, with so many in flight.
func (w *world) many(n, inFlight int, do func(i int) error) {
	w.Helper()
	var group errgroup.Group
	group.SetLimit(inFlight)
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	w.must(group.Wait())
}

// tracked creates n tracked Deployments, each with a ConfigMap of its own, and gives their names.
func (w *world) tracked(prefix string, n int) (names []string) {
	w.Helper()
	for i := range n {
		names = append(names, fmt.Sprint(prefix, "-", i))
	}
	w.many(n, creating, func(i int) error {
		if err := w.create(configMap(names[i], "v")); err != nil {
			return err
		}
		return w.create(deployment(names[i], names[i]))
	})
	return names
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"key": value}}
}

// deployment makes a tracked Deployment without pods that uses a ConfigMap in the two usual ways.
func deployment(name, source string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	reference := corev1.LocalObjectReference{Name: source}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{keys.Track: "all"}},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{
						Name: "app", Image: "app:1",
						EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: reference}}},
					}},
					Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
						ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: reference}}}},
				},
			},
		},
	}
}

// untracked makes a Deployment that confrev leaves alone.
func untracked(name string) *appsv1.Deployment {
	d := deployment(name, "app")
	d.Annotations = nil
	return d
}

// edit gives a ConfigMap a new value, as `kubectl edit` does, and returns when the API server had it.
func (w *world) edit(name, value string) time.Time {
	w.Helper()
	cm := &corev1.ConfigMap{}
	w.must(cluster.Client.Get(w.ctx, types.NamespacedName{Namespace: w.ns, Name: name}, cm))
	cm.Data["key"] = value
	w.must(cluster.Client.Update(w.ctx, cm))
	return time.Now()
}

// stamp is the template annotation of the bare patches that make the floor.
const stamp = "example.com/stamp"

// patchTemplate is the least that any tool must do to roll a Deployment out.
func (w *world) patchTemplate(name, value string) error {
	return w.patch(name, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:%q}}}}}`, stamp, value))
}

// patch changes a Deployment by a merge patch.
func (w *world) patch(name, patch string) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}}
	return cluster.Client.Patch(w.ctx, d, client.RawPatch(types.MergePatchType, []byte(patch)))
}
