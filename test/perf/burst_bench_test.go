//go:build perf

package perf

import (
	"fmt"
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
// pin. The floor is as many creates and patches, begun at the same pace.
func BenchmarkBurst(b *testing.B) {
	w := newWorld(b)
	names := w.tracked("web", burstApps)
	w.many(burstApps, creating, func(i int) error { return w.TryCreate(untracked(fmt.Sprint("floor-", i))) })
	confrev, templates := w.startPinning(workload.Deployment, names, "--settle", "0s", "--revisions-per-hour", "100000")
	edited := make([]time.Time, burstApps)
	index := map[string]int{}
	for i, name := range names {
		index[name] = i
	}
	var taken []time.Duration
	mark, cpu := w.mark(), confrev.cpu()
	for b.Loop() {
		w.paced(burstApps, func(i int) error {
			w.Edit(names[i], "key", "edited")
			edited[i] = time.Now()
			return nil
		})
		for name, at := range templates.changedNames(keys.Pins, names) {
			taken = append(taken, at.Sub(edited[index[name]]))
		}
	}
	confrev.idle()
	requests, used := w.requests(mark, burstApps), (confrev.cpu()-cpu)/burstApps
	rollouts := w.replicaSets()
	confrev.stop()
	time.Sleep(quiet) // the Deployment controller catches up
	floor := w.burstFloor(templates)
	t := newTable(b, fmt.Sprintf("%d edits within %s", burstApps, burstTime), "median", "p99", "max")
	t.row("edit → pin", middle(taken), quantile(taken, .99), quantile(taken, 1))
	t.row("floor: create + patch", middle(floor), quantile(floor, .99), quantile(floor, 1))
	t.print()
	// One of the first pin, and one of the edit.
	fmt.Printf("%d pinned; Deployments by their number of ReplicaSets with pins: %s\n", len(taken), rollouts)
	w.reportRequests(requests, used)
	b.ReportMetric(ms(middle(taken)), "median-ms")
	b.ReportMetric(ms(quantile(taken, .99)), "p99-ms")
	b.ReportMetric(ms(quantile(floor, .99)), "floor-p99-ms")
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

func (w *world) burstFloor(templates *templates) []time.Duration {
	w.Helper()
	begun, names := make([]time.Time, burstApps), make([]string, burstApps)
	index := map[string]int{}
	for i := range names {
		names[i] = fmt.Sprint("floor-", i)
		index[names[i]] = i
	}
	w.paced(burstApps, func(i int) error {
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

// replicaSets returns how many Deployments have how many ReplicaSets.
func (w *world) replicaSets() string {
	w.Helper()
	all := &appsv1.ReplicaSetList{}
	w.List(all)
	each := map[string]int{}
	for _, rs := range all.Items {
		if owner := metav1.GetControllerOf(&rs); owner != nil && rs.Spec.Template.Annotations[keys.Pins] != "" {
			each[owner.Name]++
		}
	}
	counts := map[int]int{}
	for _, n := range each {
		counts[n]++
	}
	return fmt.Sprint(counts)
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
	last, edits := time.Now(), 0
	for b.Loop() {
		for begun := last; time.Since(begun) < stormTime; edits++ {
			last = w.edit("app", fmt.Sprint("value ", edits))
			time.Sleep(time.Until(begun.Add(time.Duration(edits+1) * time.Second / stormRate)))
		}
	}
	confrev.idle()
	final := fmt.Sprint("value ", edits-1)
	var pinned time.Time
	w.Eventually("all have the last content", func() string {
		for _, name := range names {
			if got := w.revisionOf(name).Data["key"]; got != final {
				return name + " has " + got
			}
		}
		return ""
	})
	moves := 0
	for {
		select {
		case s := <-templates.events:
			if s.annotations[keys.Pins] != templates.seen[s.name][keys.Pins] {
				moves++
				pinned = s.at
			}
			templates.seen[s.name] = s.annotations
			continue
		default:
		}
		break
	}
	requests := w.requests(mark, edits)
	t := newTable(b, fmt.Sprintf("%d edits in %s, %d Deployments", edits, stormTime, len(names)), "")
	t.row("rollouts", moves)
	t.row("revisions in the end", len(w.Revisions("app")))
	t.row("last edit → last pin", pinned.Sub(last))
	t.print()
	w.reportRequests(requests, (confrev.cpu()-cpu)/time.Duration(edits))
	b.ReportMetric(float64(moves), "rollouts")
	b.ReportMetric(ms(pinned.Sub(last)), "last-ms")
}
