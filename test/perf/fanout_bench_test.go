//go:build perf

package perf

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/workload"
)

// effort is how often the shared ConfigMap is edited, and of the floor, how many rounds there are and with how many patches in flight.
// The floor is the best of these; they take turns, so that a busy machine slows them all.
type effort struct {
	edits, rounds int
	inFlight      []int
}

// many is how many workloads take long. The Deployment controller needs up to twenty minutes to roll out the most of them once.
const many, most = 3000, 10000

func effortFor(users int) effort {
	switch {
	case users >= most:
		return effort{edits: 1, rounds: 1, inFlight: []int{16}} // the best with 3,000
	case users >= many:
		return effort{edits: 3, rounds: 2, inFlight: []int{1, 4, 16}}
	default:
		return effort{edits: 5, rounds: 3, inFlight: []int{1, 4, 16}}
	}
}

// BenchmarkShared measures the times from the update of a ConfigMap having returned until a watch shows the first, the
// median and the last pin of the Deployments that share it. The floor is a bare patch of each template and one more,
// with several in flight, while the Deployment controller is as busy as it is with confrev's. CONFREV_BENCH_SHARED are other numbers
// of Deployments.
func BenchmarkShared(b *testing.B) {
	for _, users := range sizes(b, "CONFREV_BENCH_SHARED", "200,1000,3000,10000") {
		b.Run(fmt.Sprintf("workloads=%d", users), func(b *testing.B) { benchmarkShared(b, users) })
	}
}

func benchmarkShared(b *testing.B, users int) {
	if users >= many {
		long(b)
	}
	effort := effortFor(users)
	w := newAnyWorld(b)
	w.patientFor(users)
	names := w.sharers(users)
	confrev, templates := w.startPinning(workload.Deployment, names, "--settle", "0s", "--revisions-per-hour", "100000")
	times := sharedTimes{}
	mark, cpu, owners := w.mark(), confrev.cpu(), w.watchOwners()
	for b.Loop() {
		for i := range effort.edits {
			edited := w.edit("app", fmt.Sprint("value ", i))
			times.add(edited, templates.changed(rolled, names...))
			confrev.idle() // owners and events are part of it
			w.caughtUp()
		}
	}
	requests := w.requests(mark, len(times.last))
	cpu = (confrev.cpu() - cpu) / time.Duration(len(times.last))
	writes := owners()
	var revision *corev1.ConfigMap
	if driven == nil {
		revision = w.revisionOf(names[0])
	}
	confrev.stop()
	s := measured(b, users)
	w.reportFloor(s, users, w.floors(users, effort))
	w.reportShared(s, users, times)
	w.reportRequests(s, requests, cpu)
	if driven == nil {
		w.reportOwners(s, writes, revision, len(times.last))
	}
}

// patientFor makes waits as long as so many workloads may need on a busy machine.
func (w *world) patientFor(workloads int) {
	w.Patience = max(patience, time.Duration(workloads)*200*time.Millisecond)
}

// caughtUp waits until the Deployment controller has dealt with every Deployment.
func (w *world) caughtUp() {
	w.Helper()
	w.Eventually("the Deployment controller has caught up", func() string {
		all, behind := &appsv1.DeploymentList{}, 0
		w.List(all)
		for _, d := range all.Items {
			if d.Status.ObservedGeneration < d.Generation {
				behind++
			}
		}
		if behind > 0 {
			return fmt.Sprintf("%d of %d are behind", behind, len(all.Items))
		}
		return ""
	})
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

// floors patches as many templates as an edit does, and one more in place of the revision.
func (w *world) floors(users int, effort effort) map[int][]time.Duration {
	w.Helper()
	patches := users + 1
	name := func(i int) string { return fmt.Sprint("floor-", i) }
	w.many(patches, creating, func(i int) error { return w.TryCreate(untracked(name(i))) })
	taken := map[int][]time.Duration{}
	for round := range effort.rounds {
		for _, n := range effort.inFlight {
			w.caughtUp()
			begun := time.Now()
			w.many(patches, n, func(i int) error { return w.patchTemplate(name(i), fmt.Sprint(round, "-", n)) })
			taken[n] = append(taken[n], time.Since(begun))
		}
	}
	return taken
}

// reportFloor reports how long bare patches take, of which the floor is the best.
func (w *world) reportFloor(s *scenario, users int, floors map[int][]time.Duration) {
	inFlight := slices.Sorted(maps.Keys(floors))
	best := inFlight[0]
	t := newTable(w.B, fmt.Sprintf("%d bare patches", users+1), "median", "min", "max")
	for _, n := range inFlight {
		t.row(fmt.Sprintf("%d in flight", n), middle(floors[n]), quantile(floors[n], 0), quantile(floors[n], 1))
		if middle(floors[n]) < middle(floors[best]) {
			best = n
		}
	}
	t.print()
	s.least(fmt.Sprintf("%d patches, %d in flight", users+1, best), floors[best])
}

func (w *world) reportShared(s *scenario, users int, times sharedTimes) {
	t := newTable(w.B, fmt.Sprintf("%d edits, %d Deployments", len(times.last), users), "median", "min", "max")
	row := func(name string, d []time.Duration) {
		t.row(name+" pin", middle(d), quantile(d, 0), quantile(d, 1))
	}
	row("first", times.first)
	row("median", times.median)
	row("last", times.last)
	t.print()
	s.took("last pin", times.last)
	s.took("median pin", times.median)
	s.took("first pin", times.first)
	s.over("last over floor", middle(times.last))
}

// reportOwners prints what the owners of one shared revision cost. A write carries the whole list.
func (w *world) reportOwners(s *scenario, writes []int, revision *corev1.ConfigMap, edits int) {
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
	s.set("writes of owners", float64(len(writes))/float64(edits), "per edit")
	s.set("owners sent", sent/float64(edits)/1024, "KiB per edit")
	s.set("revision", float64(len(whole))/1024, "KiB")
}
