//go:build reliability

package reliability

import (
	"context"
	"errors"
	"maps"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/faults"
)

// A backup of etcd is restored to the same cluster, and confrev starts again, as everything must that watches: etcd's revisions go back, so a watch that
// continues shows nothing until they are where they were. Everything is what it was: nothing that confrev wrote later changes a workload, and the next edit
// is one rollout of each.
func TestABackupIsRestored(t *testing.T) {
	m := alone(t, "backup", faults.Options{Seed: seed})
	w := newWorld(t)
	w.hasHistory()
	before, generations := w.state(true), w.generations()
	backup, err := cluster.Backup(w.Ctx, os.Stderr)
	w.Must(err)
	w.movesOn()
	w.Must(m.Kill())
	w.Must(cluster.Restore(w.Ctx, backup, os.Stderr))
	w.Must(m.Start(w.Ctx))
	w.Must(cluster.WaitWebhook(w.Ctx))
	w.isAsBefore(before, generations)
	w.rollsOutOnce(generations)
}

// The backup of a cluster is restored to another one, while the first continues. Uids and resourceVersions are the same in both, and no longer mean the
// same.
func TestABackupIsRestoredToAnotherCluster(t *testing.T) {
	m := alone(t, "original", faults.Options{Seed: seed})
	w := newWorld(t)
	w.hasHistory()
	before, generations := w.state(true), w.generations()
	backup, err := cluster.Backup(w.Ctx, os.Stderr)
	w.Must(err)
	w.movesOn()
	original := w.state(true)

	other, err := env.Up(w.Ctx, cluster.Name+"-other", os.Stderr)
	w.Must(err)
	t.Cleanup(func() {
		if err := errors.Join(other.Panics(), env.Down(context.Background(), other.Name, os.Stderr)); err != nil {
			t.Error(err)
		}
	})
	w.Must(other.Restore(w.Ctx, backup, os.Stderr))
	// As a deploy tool does there: the webhook has another address.
	w.Must(other.Install(w.Ctx, "settle="+settle.String(), "grace="+grace.String()))
	confrev, err := other.Confrev(w.Ctx, "other", binary, "--settle", settle.String(), "--grace", grace.String())
	w.Must(err)
	w.Must(confrev.Start(w.Ctx))
	t.Cleanup(func() {
		if err := confrev.Stop(); err != nil {
			t.Error(err)
		}
	})
	w.Must(other.WaitWebhook(w.Ctx))

	there := &world{T: t, World: other.WorldIn(t, w.NS)}
	there.isAsBefore(before, generations)
	there.rollsOutOnce(generations)
	w.Barrier()
	if diff := cmp.Diff(original, w.state(true)); diff != "" {
		t.Errorf("in the first cluster, something changed (-before +after), see %s:\n%s", m.Log, diff)
	}
}

// Objects are restored one by one, as backup tools do that know no etcd: with new uids, without owners, sources and revisions first. The numbers and uids in
// annotations are those of the first ones.
func TestObjectsAreRestored(t *testing.T) {
	alone(t, "objects", faults.Options{Seed: seed})
	w := newWorld(t)
	w.hasHistory()
	saved := w.save()
	restored := newWorld(t)
	restored.recreate(saved)
	restored.Eventually("all are rolled out", func() string {
		return restored.notPinned("B", map[string]string{"a": "A"})
	})
	restored.Barrier()
	restored.stays(grace+quiet, func() string { return restored.notPinned("B", map[string]string{"a": "A"}) })
	if complaint := restored.notHeld("a"); complaint != "" {
		t.Error(complaint)
	}
	for _, s := range restored.subjects() {
		if s.rollouts != "1" {
			t.Errorf("%s was rolled out %s times", s, s.rollouts)
		}
	}
	restored.Edit(source, color, "next")
	restored.waitPinned("next")
	restored.WaitOwned(restored.PinOf("b", source).Revision, "a", "b", "c")
}

// hasHistory makes workloads that went from A to B, one of which went back.
func (w *world) hasHistory() {
	w.Helper()
	w.has("A", deployment("a"), deployment("b"), deployment("c"))
	w.Edit(source, color, "B")
	w.waitPinned("B")
	w.Undo("a")
	w.Eventually("a is held", func() string { return w.notHeld("a") + w.notPinned("B", map[string]string{"a": "A"}) })
	w.Barrier()
}

// movesOn changes what a restored backup knows nothing of.
func (w *world) movesOn() {
	w.Helper()
	w.Must(cluster.WaitWebhook(w.Ctx))
	w.Edit(source, color, "C")
	w.waitPinned("C")
	w.Create(deployment("late"))
	w.Kubectl("delete", "deployment/c")
	w.Edit(source, color, "D")
	w.waitPinned("D")
	w.Barrier()
}

// generations returns those of all workloads.
func (w *world) generations() map[string]int64 {
	w.Helper()
	all := map[string]int64{}
	for _, s := range w.subjects() {
		all[s.GetName()+" "+string(s.GetUID())] = s.GetGeneration()
	}
	return all
}

// isAsBefore waits until confrev has dealt with everything, and compares.
func (w *world) isAsBefore(before string, generations map[string]int64) {
	w.Helper()
	w.Barrier()
	w.Eventually("it is as it was", func() string { return cmp.Diff(before, w.state(true)) })
	// What confrev does late, it has done by then.
	w.Barrier()
	if diff := cmp.Diff(before, w.state(true)) + cmp.Diff(generations, w.generations()); diff != "" {
		w.Errorf("after the restoration, something changed (-before +after):\n%s", diff)
	}
}

// rollsOutOnce edits the source: each workload rolls out once.
func (w *world) rollsOutOnce(generations map[string]int64) {
	w.Helper()
	w.Edit(source, color, "next")
	w.waitPinned("next")
	w.Barrier()
	for name, generation := range w.generations() {
		if n := generation - generations[name]; n != 1 {
			w.Errorf("%s has rolled out %d times", name, n)
		}
	}
}

// save returns the ConfigMaps and Deployments of the namespace as a backup tool keeps them.
func (w *world) save() (all []client.Object) {
	w.Helper()
	sources, deployments := &corev1.ConfigMapList{}, &appsv1.DeploymentList{}
	w.List(sources)
	w.List(deployments)
	for i := range sources.Items {
		if cm := &sources.Items[i]; cm.Name != "kube-root-ca.crt" && !ofBarrier(cm) {
			all = append(all, cm)
		}
	}
	for i := range deployments.Items {
		if d := &deployments.Items[i]; !ofBarrier(d) {
			d.Status = appsv1.DeploymentStatus{}
			all = append(all, d)
		}
	}
	for _, obj := range all {
		labels, annotations := obj.GetLabels(), maps.Clone(obj.GetAnnotations())
		delete(annotations, "deployment.kubernetes.io/revision")
		clean := metav1.ObjectMeta{Name: obj.GetName(), Labels: labels, Annotations: annotations}
		switch o := obj.(type) {
		case *corev1.ConfigMap:
			o.ObjectMeta = clean
		case *appsv1.Deployment:
			o.ObjectMeta = clean
		}
	}
	return all
}

func ofBarrier(obj client.Object) bool {
	return obj.GetName() == "barrier" || obj.GetAnnotations()[keys.SourceName] == "barrier"
}

// recreate creates them, ConfigMaps first.
func (w *world) recreate(all []client.Object) {
	w.Helper()
	for _, obj := range all {
		w.Create(obj)
	}
}
