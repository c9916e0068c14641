//go:build perf

package perf

import (
	"cmp"
	"fmt"
	"os"
	"testing"
	"time"

	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/env"
)

// BenchmarkResync counts what confrev asks of the API server while nothing changes. Watches end and begin again meanwhile, as the API server
// ends each after five to ten minutes. CONFREV_BENCH_RESYNC is the number of Deployments, CONFREV_BENCH_RESYNC_TIME how long nothing changes.
func BenchmarkResync(b *testing.B) {
	n := size(b, "CONFREV_BENCH_RESYNC", 10_000)
	d, err := time.ParseDuration(cmp.Or(os.Getenv("CONFREV_BENCH_RESYNC_TIME"), "1h"))
	if err != nil {
		b.Fatalf("CONFREV_BENCH_RESYNC_TIME: %v", err)
	}
	b.Run(fmt.Sprintf("workloads=%d,time=%s", n, d), func(b *testing.B) {
		long(b)
		benchmarkResync(b, n, d)
	})
}

func benchmarkResync(b *testing.B, n int, d time.Duration) {
	w := newWorld(b)
	w.patientFor(n)
	confrev, _ := w.startPinning(workload.Deployment, w.tracked("web", n), "--settle", "0s")
	w.caughtUp()
	confrev.idle()
	reconciled := func() float64 { return confrev.metrics().Sum("controller_runtime_reconcile_total") }
	mark, cpu, looks, before := w.mark(), confrev.cpu(), reconciled(), confrev.memory()
	for b.Loop() {
		select {
		case <-time.After(d):
		case <-w.Ctx.Done():
			w.Fatal(w.Ctx.Err())
		}
	}
	all, err := asked(mark)
	w.Must(err)
	watches := 0
	for _, r := range all {
		if r.Verb == "watch" {
			watches++
		}
	}
	after, requests := confrev.memory(), w.requests(mark, 1)
	reads, cached := requests.sum(true), ofTheCached(all, w.NS)
	t := newTable(b, fmt.Sprintf("%d Deployments, nothing changes for %s", n, d), "writes", "reads", "of what is cached", "watches", "looks", "CPU")
	t.row("", requests.sum(false), reads, cached, watches, reconciled()-looks, confrev.cpu()-cpu)
	t.print()
	fmt.Printf("%s\n", requests)
	s := measured(b, n)
	s.set("writes", requests.sum(false), "")
	s.set("reads", reads, "")
	s.set("reads of what is cached", float64(cached), "")
	s.set("watches", float64(watches), "")
	s.set("reconciliations", reconciled()-looks, "")
	s.set("CPU", (confrev.cpu() - cpu).Seconds(), "s")
	s.set("anonymous, before", before.anonymous/mebibyte, "MiB")
	s.set("anonymous, after", after.anonymous/mebibyte, "MiB")
}

// ofTheCached returns how many requests read in a namespace, or list: caches have all that. The others are what confrev looks at every ten seconds,
// whatever there is in the cluster: what resolves pins, its own certificate, and the kinds that the API server serves.
func ofTheCached(all []env.Request, namespace string) (n int) {
	for _, r := range withoutWatches(all) {
		if !r.Writes() && (r.Object.Namespace == namespace || r.Verb == "list") {
			n++
		}
	}
	return n
}
