//go:build perf

package perf

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
)

// BenchmarkStart measures how long confrev takes from the start of its process until it is ready, and until it has
// nothing more to do: for workloads that it has never seen, each of which it pins, and for those that are pinned, which
// is every later start. They run without pods, each with a ConfigMap of its own.
func BenchmarkStart(b *testing.B) {
	for _, n := range []int{50, 400, 1000} {
		b.Run(fmt.Sprint("workloads=", n), func(b *testing.B) { benchmarkStart(b, n) })
	}
}

// start is what one start took.
type start struct {
	ready, idle, cpu time.Duration
	requests         tally
	memory           memory
}

// benchmarkStart does not loop: a workload is never seen only once.
func benchmarkStart(b *testing.B, n int) {
	w := newWorld(b)
	names := w.tracked("web", n)
	time.Sleep(quiet) // the Deployment controller catches up
	templates, begun := w.watchTemplates(workload.Deployment), time.Now()
	var pinned time.Duration
	first := w.measureStart(func() {
		pinned = slices.MaxFunc(templates.changed(keys.Pins, names...), time.Time.Compare).Sub(begun)
	})
	later := w.measureStart(func() {})
	t := newTable(b, fmt.Sprint(n, " workloads"), "ready", "idle", "CPU", "writes", "reads", "RSS MiB", "peak MiB")
	t.row("never seen", first.cells()...)
	t.row("pinned", later.cells()...)
	t.print()
	// After the last pin, confrev waits for the Deployment controller to make the ReplicaSets that it attaches.
	fmt.Printf("never seen: last pin after %.1f s; %s\npinned: %s\n", pinned.Seconds(), first.requests, later.requests)
	b.ReportMetric(ms(pinned), "first-pinned-ms")
	b.ReportMetric(ms(first.idle), "first-idle-ms")
	b.ReportMetric(ms(later.ready), "ready-ms")
	b.ReportMetric(ms(later.idle), "idle-ms")
	b.ReportMetric(later.memory.now/mebibyte, "pinned-MiB")
	b.ReportMetric(later.requests.sum(true), "reads")
	b.ReportMetric(later.requests.sum(false), "writes")
}

func (s start) cells() []any {
	return []any{s.ready, s.idle, s.cpu, s.requests.sum(false), s.requests.sum(true), s.memory.now / mebibyte, s.memory.peak / mebibyte}
}

// measureStart measures a start whose work is not over before done returns.
func (w *world) measureStart(done func()) start {
	w.Helper()
	mark := w.mark()
	confrev := w.start()
	defer confrev.stop()
	done()
	idle := confrev.idle().Sub(confrev.started)
	return start{
		ready: confrev.ready, idle: idle, cpu: confrev.cpu(), memory: confrev.memory(), requests: w.requests(mark, 1),
	}
}
