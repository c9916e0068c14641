//go:build perf

package perf

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
)

// BenchmarkStart measures how long confrev takes from the start of its process until it is ready, and until it has
// nothing more to do: for workloads that it has never seen, each of which it pins, and for those that are pinned, which
// is every later start. They run without pods, each with a ConfigMap of its own. With history, each has so many ReplicaSets
// at the later start. CONFREV_BENCH_START and CONFREV_BENCH_HISTORY are other sizes of the one with history.
func BenchmarkStart(b *testing.B) {
	for _, n := range []int{50, 400, 1000} {
		b.Run(fmt.Sprint("workloads=", n), func(b *testing.B) { benchmarkStart(b, n, 0) })
	}
	n, history := size(b, "CONFREV_BENCH_START", 10_000), size(b, "CONFREV_BENCH_HISTORY", 10)
	b.Run(fmt.Sprintf("workloads=%d,history=%d", n, history), func(b *testing.B) {
		long(b)
		benchmarkStart(b, n, history)
	})
}

// start is what one start took.
type start struct {
	ready, idle, cpu time.Duration
	requests         tally
	memory           memory
}

// benchmarkStart does not loop: a workload is never seen only once.
func benchmarkStart(b *testing.B, n, history int) {
	w := newWorld(b)
	w.patientFor(n * max(1, history/2))
	names := w.tracked("web", n)
	w.caughtUp()
	templates, begun := w.watchTemplates(workload.Deployment), time.Now()
	var pinned time.Duration
	first := w.measureStart(func() {
		pinned = slices.MaxFunc(templates.changed(keys.Pins, names...), time.Time.Compare).Sub(begun)
		w.caughtUp()
		w.age(history)
	})
	later := w.measureStart(func() {})
	t := newTable(b, fmt.Sprint(n, " workloads"), "ready", "idle", "CPU", "writes", "reads", "anonymous MiB", "RSS MiB", "peak MiB")
	t.row("never seen", first.cells()...)
	t.row("pinned", later.cells()...)
	t.print()
	// After the last pin, confrev waits for the Deployment controller to make the ReplicaSets that it attaches.
	fmt.Printf("never seen: last pin after %.1f s; %s\npinned: %s\n", pinned.Seconds(), first.requests, later.requests)
	s := measured(b, n)
	s.set("ReplicaSets", float64(w.countReplicaSets()), "")
	s.set("pinned: ready", ms(later.ready), "ms")
	s.set("pinned: idle", ms(later.idle), "ms")
	s.set("pinned: reads", later.requests.sum(true), "")
	s.set("pinned: writes", later.requests.sum(false), "")
	s.set("pinned: anonymous", later.memory.anonymous/mebibyte, "MiB")
	s.set("pinned: resident", later.memory.now/mebibyte, "MiB")
	s.set("pinned: peak resident", later.memory.peak/mebibyte, "MiB")
	s.set("never seen: last pin", ms(pinned), "ms")
	s.set("never seen: idle", ms(first.idle), "ms")
}

func (s start) cells() []any {
	return []any{s.ready, s.idle, s.cpu, s.requests.sum(false), s.requests.sum(true),
		s.memory.anonymous / mebibyte, s.memory.now / mebibyte, s.memory.peak / mebibyte}
}

// measureStart measures a start whose work is not over before done returns.
func (w *world) measureStart(done func()) start {
	w.Helper()
	mark := w.mark()
	confrev := w.start()
	defer confrev.stop()
	done()
	idle, memory := confrev.idle().Sub(confrev.started), confrev.memory()
	return start{ready: confrev.ready, idle: idle, cpu: confrev.cpu(), memory: memory, requests: w.requests(mark, 1)}
}

// age adds ReplicaSets to each Deployment, until it has as many as after so many rollouts of images: copies of its last one with other images. Revisions
// of the Deployment are not counted in them, so that they are older than what it has. From then on the controllers of Kubernetes are suspended: for
// each Deployment that gets one, theirs looks through all ReplicaSets of the namespace, which would take hours.
func (w *world) age(history int) {
	w.Helper()
	if history == 0 {
		return
	}
	resume, err := cluster.SuspendProcess("kube-controller-manager")
	w.Must(err)
	w.Cleanup(func() { w.Must(resume()) })
	all := &appsv1.ReplicaSetList{}
	w.List(all)
	var copies []*appsv1.ReplicaSet
	have := map[string]int{}
	for _, rs := range all.Items {
		have[metav1.GetControllerOf(&rs).Name]++
	}
	for _, rs := range all.Items {
		if rs.Spec.Template.Annotations[keys.Pins] == "" {
			continue
		}
		for i := range history - have[metav1.GetControllerOf(&rs).Name] {
			copies = append(copies, olderThan(&rs, i))
		}
	}
	w.many(len(copies), creating, func(i int) error { return w.TryCreate(copies[i]) })
}

// olderThan makes a ReplicaSet of another image, with the pins of the one that its Deployment has now.
func olderThan(rs *appsv1.ReplicaSet, i int) *appsv1.ReplicaSet {
	older := rs.DeepCopy()
	hash := fmt.Sprint("older-", i)
	older.ObjectMeta = metav1.ObjectMeta{Name: rs.Name + "-" + hash, Labels: rs.Labels, OwnerReferences: rs.OwnerReferences}
	for _, labels := range []map[string]string{older.Labels, older.Spec.Selector.MatchLabels, older.Spec.Template.Labels} {
		labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	}
	older.Spec.Template.Spec.Containers[0].Image = "app:" + hash
	return older
}

func (w *world) countReplicaSets() int {
	w.Helper()
	all := &appsv1.ReplicaSetList{}
	w.List(all)
	return len(all.Items)
}
