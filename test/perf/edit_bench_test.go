//go:build perf

package perf

import (
	"fmt"
	"testing"
	"time"

	"confrev.io/confrev/internal/workload"
)

// others is how many other tracked Deployments are in the namespace of the one that is edited.
const others = 200

// pause lets what follows an edit (the rollout, owners, events) end before the next one: edits come one by one in life.
const pause = 250 * time.Millisecond

// BenchmarkEdit measures the time from the update of a ConfigMap having returned until a watch shows the new pin in the
// template of the one Deployment that uses it. The floor is what any tool that copies must do, one after the other: a
// create of a ConfigMap and a patch of a template, until the watch shows it.
func BenchmarkEdit(b *testing.B) {
	// So many that there is a 99th percentile; CONFREV_BENCH_EDITS is another number.
	b.Run("settle=0s", func(b *testing.B) { benchmarkEdit(b, 0, size(b, "CONFREV_BENCH_EDITS", 200)) })
	b.Run("settle=2s", func(b *testing.B) { benchmarkEdit(b, 2*time.Second, 10) })
}

func benchmarkEdit(b *testing.B, settle time.Duration, edits int) {
	if settle > 0 && driven != nil {
		b.Skip("how long others wait is part of what they do")
	}
	w := newAnyWorld(b)
	names := append(w.tracked("other", others), "web")
	w.Must(w.TryCreate(configMap("web", "first")))
	w.Must(w.TryCreate(deployment("web", "web")))
	w.Must(w.TryCreate(untracked("floor")))
	confrev, templates := w.startPinning(workload.Deployment, names, "--settle", settle.String(), "--revisions-per-hour", "100000")
	var taken, floor []time.Duration
	mark, cpu := w.mark(), confrev.cpu()
	for b.Loop() {
		for i := range edits {
			edited := w.edit("web", fmt.Sprint("value ", i))
			taken = append(taken, templates.changed(rolled, "web")[0].Sub(edited))
			time.Sleep(pause)
			floor = append(floor, w.createAndPatch(templates))
			time.Sleep(pause)
		}
	}
	confrev.idle() // owners and events are part of it
	cpu = confrev.cpu() - cpu
	s := measured(b, len(names))
	w.reportEdit(s, settle, taken, floor)
	w.reportRequests(s, w.requests(mark, len(taken)), cpu/time.Duration(len(taken)))
}

func (w *world) createAndPatch(templates *templates) time.Duration {
	w.Helper()
	name := fmt.Sprint("bare-", time.Now().UnixNano())
	begun := time.Now()
	w.Must(w.TryCreate(configMap(name, name)))
	w.Must(w.patchTemplate("floor", name))
	return templates.changed(stamp, "floor")[0].Sub(begun)
}

func (w *world) reportEdit(s *scenario, settle time.Duration, taken, floor []time.Duration) {
	t := newTable(w.B, fmt.Sprintf("%d edits", len(taken)), "median", "p95", "max")
	row := func(name string, d []time.Duration, less time.Duration) {
		t.row(name, middle(d)-less, quantile(d, .95)-less, quantile(d, 1)-less)
	}
	row("edit → pin", taken, 0)
	if settle > 0 {
		row("… less the settle time", taken, settle)
	}
	row("floor: create + patch", floor, 0)
	t.print()
	s.least("create and patch", floor)
	s.took("edit to pin", taken)
	s.set("p99", ms(quantile(taken, .99)), "ms")
	s.over("median over floor", middle(taken)-settle)
	s.over("p99 over floor", quantile(taken, .99)-settle)
}

// reportRequests prints what one edit costs the API server, and the controller.
func (w *world) reportRequests(s *scenario, requests tally, cpu time.Duration) {
	w.Helper()
	fmt.Printf("per edit: %.1f writes, %.1f reads, %.1f ms of %s's CPU: %s\n",
		requests.sum(false), requests.sum(true), ms(cpu), measuring(), requests)
	s.set("writes", requests.sum(false), "per edit")
	s.set("reads", requests.sum(true), "per edit")
	s.set("CPU", ms(cpu), "ms per edit")
}
