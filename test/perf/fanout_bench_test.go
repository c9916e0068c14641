//go:build perf

package perf

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
)

// sharedEdits is how often the shared ConfigMap is edited.
const sharedEdits = 5

// BenchmarkShared measures the times from the update of a ConfigMap having returned until a watch shows the first, the
// median and the last pin of the Deployments that share it. The floor is a bare patch of each template and one more,
// with 1, 4 and 16 in flight, while the Deployment controller is as busy as it is with confrev's.
func BenchmarkShared(b *testing.B) {
	for _, users := range []int{200, 1000} {
		b.Run(fmt.Sprintf("workloads=%d", users), func(b *testing.B) { benchmarkShared(b, users) })
	}
}

func benchmarkShared(b *testing.B, users int) {
	w := newWorld(b)
	names := w.sharers(users)
	confrev, templates := w.startPinning(workload.Deployment, names, "--settle", "0s", "--revisions-per-hour", "100000")
	times := sharedTimes{}
	mark, cpu, owners := w.mark(), confrev.cpu(), w.watchOwners()
	for b.Loop() {
		for i := range sharedEdits {
			edited := w.edit("app", fmt.Sprint("value ", i))
			times.add(edited, templates.changed(keys.Pins, names...))
			confrev.idle() // owners and events are part of it
		}
	}
	requests := w.requests(mark, len(times.last))
	cpu = (confrev.cpu() - cpu) / time.Duration(len(times.last))
	writes := owners()
	revision := w.revisionOf(names[0])
	confrev.stop()
	best := w.reportFloor(users, w.floors(users))
	w.reportShared(users, times, best)
	w.reportRequests(requests, cpu)
	w.reportOwners(writes, revision, len(times.last))
}

func (w *world) sharers(users int) (names []string) {
	w.Helper()
	w.Must(w.TryCreate(configMap("app", "first")))
	for i := range users {
		names = append(names, fmt.Sprint("web-", i))
	}
	w.many(users, creating, func(i int) error { return w.TryCreate(deployment(names[i], "app")) })
	return names
}

// sharedTimes has the first, median and last pin of each edit.
type sharedTimes struct{ first, median, last []time.Duration }

func (s *sharedTimes) add(edited time.Time, pinned []time.Time) {
	var taken []time.Duration
	for _, at := range pinned {
		taken = append(taken, at.Sub(edited))
	}
	s.first = append(s.first, quantile(taken, 0))
	s.median = append(s.median, middle(taken))
	s.last = append(s.last, quantile(taken, 1))
}

// revisionOf returns the revision that a Deployment is pinned to.
func (w *world) revisionOf(name string) *corev1.ConfigMap {
	w.Helper()
	cm := &corev1.ConfigMap{}
	w.Must(w.Get(w.PinOf(name, "app").Revision, cm))
	return cm
}

// inFlight are the numbers of patches at a time of which the floor is the best.
var inFlight = []int{1, 4, 16}

// floorRounds is how often each is measured; they take turns, so that a busy machine slows them all.
const floorRounds = 3

// floors patches as many templates as an edit does, and one more in place of the revision.
func (w *world) floors(users int) map[int][]time.Duration {
	w.Helper()
	patches := users + 1
	name := func(i int) string { return fmt.Sprint("floor-", i) }
	w.many(patches, creating, func(i int) error { return w.TryCreate(untracked(name(i))) })
	time.Sleep(quiet)
	taken := map[int][]time.Duration{}
	for round := range floorRounds {
		for _, n := range inFlight {
			begun := time.Now()
			w.many(patches, n, func(i int) error { return w.patchTemplate(name(i), fmt.Sprint(round, "-", n)) })
			taken[n] = append(taken[n], time.Since(begun))
			time.Sleep(quiet) // the Deployment controller catches up
		}
	}
	return taken
}

func (w *world) reportFloor(users int, floors map[int][]time.Duration) (best time.Duration) {
	t := newTable(w.B, fmt.Sprintf("%d bare patches", users+1), "median", "min", "max")
	for _, n := range inFlight {
		t.row(fmt.Sprintf("%d in flight", n), middle(floors[n]), quantile(floors[n], 0), quantile(floors[n], 1))
		if m := middle(floors[n]); best == 0 || m < best {
			best = m
		}
	}
	t.print()
	return best
}

func (w *world) reportShared(users int, times sharedTimes, best time.Duration) {
	t := newTable(w.B, fmt.Sprintf("%d edits, %d Deployments", len(times.last), users), "median", "min", "max")
	row := func(name string, d []time.Duration) {
		t.row(name+" pin", middle(d), quantile(d, 0), quantile(d, 1))
		w.ReportMetric(ms(middle(d)), name+"-ms")
	}
	row("first", times.first)
	row("median", times.median)
	row("last", times.last)
	ratio := float64(middle(times.last)) / float64(best)
	t.row("last pin, ratio to the floor", ratio)
	t.print()
	w.ReportMetric(ms(best), "floor-ms")
	w.ReportMetric(ratio, "ratio")
}

// reportOwners prints what the owners of one shared revision cost. A write carries the whole list.
func (w *world) reportOwners(writes []int, revision *corev1.ConfigMap, edits int) {
	whole, err := json.Marshal(revision)
	w.Must(err)
	list, err := json.Marshal(revision.OwnerReferences)
	w.Must(err)
	one := float64(len(list)) / float64(max(1, len(revision.OwnerReferences)))
	var sent float64
	for _, owners := range writes {
		sent += float64(owners) * one
	}
	fmt.Printf("owners: %.1f writes per edit with %.1f KiB in all; in the end the revision has %d owners and %.1f KiB\nowners after each write: %d\n",
		float64(len(writes))/float64(edits), sent/float64(edits)/1024, len(revision.OwnerReferences), float64(len(whole))/1024, writes)
	w.ReportMetric(float64(len(writes))/float64(edits), "owner-writes")
	w.ReportMetric(sent/float64(edits), "owner-bytes")
}
