//go:build perf

package perf

import (
	"fmt"
	"testing"
	"time"

	"confrev.io/confrev/internal/keys"
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
	b.Run("settle=0s", func(b *testing.B) { benchmarkEdit(b, 0, 50) })
	b.Run("settle=2s", func(b *testing.B) { benchmarkEdit(b, 2*time.Second, 10) })
}

func benchmarkEdit(b *testing.B, settle time.Duration, edits int) {
	w := newWorld(b)
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
			taken = append(taken, templates.changed(keys.Pins, "web")[0].Sub(edited))
			time.Sleep(pause)
			floor = append(floor, w.createAndPatch(templates))
			time.Sleep(pause)
		}
	}
	confrev.idle() // owners and events are part of it
	cpu = confrev.cpu() - cpu
	w.reportEdit(settle, taken, floor)
	w.reportRequests(w.requests(mark, len(taken)), cpu/time.Duration(len(taken)))
}

func (w *world) createAndPatch(templates *templates) time.Duration {
	w.Helper()
	name := fmt.Sprint("bare-", time.Now().UnixNano())
	begun := time.Now()
	w.Must(w.TryCreate(configMap(name, name)))
	w.Must(w.patchTemplate("floor", name))
	return templates.changed(stamp, "floor")[0].Sub(begun)
}

func (w *world) reportEdit(settle time.Duration, taken, floor []time.Duration) {
	t := newTable(w.B, fmt.Sprintf("%d edits", len(taken)), "median", "p95", "max")
	row := func(name string, d []time.Duration, less time.Duration) {
		t.row(name, middle(d)-less, quantile(d, .95)-less, quantile(d, 1)-less)
	}
	row("edit → pin", taken, 0)
	if settle > 0 {
		row("… less the settle time", taken, settle)
	}
	row("floor: create + patch", floor, 0)
	ratio := float64(middle(taken)-settle) / float64(middle(floor))
	t.row("ratio to the floor", ratio)
	t.print()
	w.ReportMetric(ms(middle(taken)), "median-ms")
	w.ReportMetric(ms(quantile(taken, .95)), "p95-ms")
	w.ReportMetric(ms(quantile(taken, 1)), "max-ms")
	w.ReportMetric(ms(middle(floor)), "floor-ms")
	w.ReportMetric(ratio, "ratio")
}

// reportRequests prints what one edit costs the API server, and confrev.
func (w *world) reportRequests(requests tally, cpu time.Duration) {
	fmt.Printf("per edit: %.1f writes, %.1f reads, %.1f ms of confrev's CPU: %s\n",
		requests.sum(false), requests.sum(true), ms(cpu), requests)
	w.ReportMetric(requests.sum(false), "writes")
	w.ReportMetric(requests.sum(true), "reads")
	w.ReportMetric(ms(cpu), "cpu-ms")
}
