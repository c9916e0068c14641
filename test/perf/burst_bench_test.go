//go:build perf

package perf

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
)

const (
	// burstApps are Deployments with a ConfigMap each, all of which are edited within burstTime.
	burstApps = 1000
	burstTime = 10 * time.Second
)

// BenchmarkBurst edits the ConfigMaps of a thousand Deployments within ten seconds, and measures for each the time until a watch shows its new
// pin. The floor is as many creates and patches, begun at the same pace. CONFREV_BENCH_BURST is another number of Deployments.
func BenchmarkBurst(b *testing.B) {
	apps := size(b, "CONFREV_BENCH_BURST", burstApps)
	b.Run(fmt.Sprint("workloads=", apps), func(b *testing.B) { benchmarkBurst(b, apps) })
}

func benchmarkBurst(b *testing.B, apps int) {
	w := newAnyWorld(b)
	names := w.tracked("web", apps)
	w.many(apps, creating, func(i int) error { return w.TryCreate(untracked(fmt.Sprint("floor-", i))) })
	confrev, templates := w.startPinning(workload.Deployment, names, "--settle", "0s", "--revisions-per-hour", "100000")
	edited := make([]time.Time, apps)
	index := map[string]int{}
	for i, name := range names {
		index[name] = i
	}
	var taken []time.Duration
	mark, cpu := w.mark(), confrev.cpu()
	for b.Loop() {
		w.paced(apps, func(i int) error {
			w.Edit(names[i], "key", "edited")
			edited[i] = time.Now()
			return nil
		})
		for name, at := range templates.changedNames(rolled, names) {
			taken = append(taken, at.Sub(edited[index[name]]))
		}
	}
	confrev.idle()
	requests, used := w.requests(mark, apps), (confrev.cpu()-cpu)/time.Duration(apps)
	w.caughtUp()
	rollouts := w.replicaSets()
	confrev.stop()
	floor := w.burstFloor(templates, apps)
	t := newTable(b, fmt.Sprintf("%d edits within %s", apps, burstTime), "median", "p99", "max")
	t.row("edit → pin", middle(taken), quantile(taken, .99), quantile(taken, 1))
	t.row("floor: create + patch", middle(floor), quantile(floor, .99), quantile(floor, 1))
	t.print()
	// One of the first pin, and one of the edit.
	fmt.Printf("%d pinned; Deployments by their number of ReplicaSets of the controller: %v\n", len(taken), rollouts)
	s := measured(b, apps)
	s.least("create and patch", floor)
	s.took("edit to pin", taken)
	s.set("p99", ms(quantile(taken, .99)), "ms")
	s.set("floor, p99", ms(quantile(floor, .99)), "ms")
	s.set("not rolled out", float64(apps-len(taken)), "")
	s.set("rolled out more or less than once", float64(apps-rollouts[2]), "")
	w.reportRequests(s, requests, used)
}

// paced calls do n times within burstTime, each call on time if earlier ones take long.
func (w *world) paced(n int, do func(i int) error) {
	w.Helper()
	begun := time.Now()
	w.many(n, n, func(i int) error {
		time.Sleep(time.Until(begun.Add(burstTime * time.Duration(i) / time.Duration(n))))
		return do(i)
	})
}

func (w *world) burstFloor(templates *templates, apps int) []time.Duration {
	w.Helper()
	begun, names := make([]time.Time, apps), make([]string, apps)
	index := map[string]int{}
	for i := range names {
		names[i] = fmt.Sprint("floor-", i)
		index[names[i]] = i
	}
	w.paced(apps, func(i int) error {
		begun[i] = time.Now()
		if err := w.TryCreate(configMap(fmt.Sprint("bare-", i), "v")); err != nil {
			return err
		}
		return w.patchTemplate(names[i], "burst")
	})
	var taken []time.Duration
	for name, at := range templates.changedNames(stamp, names) {
		taken = append(taken, at.Sub(begun[index[name]]))
	}
	return taken
}

// replicaSets returns how many Deployments have how many ReplicaSets that the controller made them have: with pins, or, of another
// controller that adds nothing at first, all.
func (w *world) replicaSets() map[int]int {
	w.Helper()
	all := &appsv1.ReplicaSetList{}
	w.List(all)
	each := map[string]int{}
	for _, rs := range all.Items {
		owner := metav1.GetControllerOf(&rs)
		// The floor's are not the controller's.
		if owner != nil && !strings.HasPrefix(owner.Name, "floor-") && (driven != nil || rs.Spec.Template.Annotations[keys.Pins] != "") {
			each[owner.Name]++
		}
	}
	counts := map[int]int{}
	for _, n := range each {
		counts[n]++
	}
	return counts
}

const (
	// stormTime is how long one ConfigMap is edited, stormRate how often in a second.
	stormTime = time.Minute
	stormRate = 10
)

// BenchmarkStorm edits one ConfigMap ten times a second, with the settle time of the chart, and counts what that costs: rollouts and revisions
// are to be few, and the last content is to win.
func BenchmarkStorm(b *testing.B) {
	w := newWorld(b)
	w.Must(w.TryCreate(configMap("app", "first")))
	names := []string{"web-0", "web-1", "web-2"}
	for _, name := range names {
		w.Must(w.TryCreate(deployment(name, "app")))
	}
	confrev, templates := w.startPinning(workload.Deployment, names)
	mark, cpu := w.mark(), confrev.cpu()
	last, edits, depth := time.Now(), 0, 0.0
	for b.Loop() {
		for begun := last; time.Since(begun) < stormTime; edits++ {
			last = w.edit("app", fmt.Sprint("value ", edits))
			if edits%stormRate == 0 {
				depth = max(depth, confrev.metrics().Sum("workqueue_depth"))
			}
			time.Sleep(time.Until(begun.Add(time.Duration(edits+1) * time.Second / stormRate)))
		}
	}
	confrev.idle()
	final := fmt.Sprint("value ", edits-1)
	w.Eventually("all have the last content", func() string {
		for _, name := range names {
			if got := w.revisionOf(name).Data["key"]; got != final {
				return name + " has " + got
			}
		}
		return ""
	})
	moves, pinned := templates.moves()
	requests := w.requests(mark, edits)
	t := newTable(b, fmt.Sprintf("%d edits in %s, %d Deployments", edits, stormTime, len(names)), "")
	t.row("rollouts", moves)
	t.row("revisions in the end", len(w.Revisions("app")))
	t.row("last edit → last pin", pinned.Sub(last))
	t.print()
	s := measured(b, len(names))
	s.set("rollouts of each", float64(moves)/float64(len(names)), "")
	s.set("revisions in the end", float64(len(w.Revisions("app"))), "")
	s.set("queue depth, max", depth, "")
	s.set("last edit to last pin", ms(pinned.Sub(last)), "ms")
	w.reportRequests(s, requests, (confrev.cpu()-cpu)/time.Duration(edits))
}

// moves returns how often pins have moved since the last look, and when they last did.
func (t *templates) moves() (n int, last time.Time) {
	for {
		select {
		case s := <-t.events:
			if s.annotations[keys.Pins] != t.seen[s.name][keys.Pins] {
				n, last = n+1, s.at
			}
			t.seen[s.name] = s.annotations
		default:
			return n, last
		}
	}
}
