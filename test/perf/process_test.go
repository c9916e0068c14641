//go:build perf

package perf

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"confrev.io/confrev/test/env"
)

// process is a running confrev.
type process struct {
	*env.Confrev
	w       *world
	started time.Time
	// ready is how long it took to become ready.
	ready   time.Duration
	stopped bool
}

// start starts confrev with the given flags, and stops it at the end. It logs as in production.
func (w *world) start(args ...string) *process {
	w.Helper()
	args = append(append([]string{"--log-level", "info"}, args...), flags...)
	confrev, err := cluster.Confrev(w.ctx, "confrev", binary, args...)
	w.must(err)
	p := &process{Confrev: confrev, w: w, started: time.Now()}
	w.must(confrev.Start(w.ctx))
	p.ready = time.Since(p.started)
	w.Cleanup(p.stop)
	return p
}

func (p *process) stop() {
	if p.stopped {
		return
	}
	p.stopped = true
	if err := p.Stop(); err != nil {
		p.w.Errorf("confrev did not end well, see %s: %v", p.Log, err)
	}
}

func (p *process) metrics() env.Metrics {
	p.w.Helper()
	metrics, err := p.ReadMetrics(context.Background())
	p.w.must(err)
	return metrics
}

// cpu is how long confrev has used a processor.
func (p *process) cpu() time.Duration {
	return time.Duration(p.metrics().Sum("process_cpu_seconds_total") * float64(time.Second))
}

// quiet is how long confrev must ask for nothing to be idle: longer than it settles and gathers by default.
const quiet = 3 * time.Second

// idle waits until confrev asks the API server for nothing any more, and gives when that began. Asking it so often costs
// it about 3 % of a processor.
func (p *process) idle() time.Time {
	p.w.Helper()
	var requests float64
	last := time.Now()
	for begin := last; time.Since(last) < quiet; time.Sleep(50 * time.Millisecond) {
		if now := p.metrics().Sum("rest_client_requests_total"); now != requests {
			requests, last = now, time.Now()
		}
		if time.Since(begin) > patience {
			p.w.Fatalf("confrev is not idle after %s, see %s", patience, p.Log)
		}
	}
	return last
}

// memory is what a process has in RAM, in bytes.
type memory struct{ now, peak, heap float64 }

func (p *process) memory() memory {
	p.w.Helper()
	// Before the metrics are read: that costs memory too.
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	p.w.must(err)
	return memory{
		now: kilobytes(string(status), "VmRSS:"), peak: kilobytes(string(status), "VmHWM:"),
		heap: p.metrics().Sum("go_memstats_heap_alloc_bytes"),
	}
}

// kilobytes reads a line of /proc/PID/status (proc_pid_status(5)) as bytes; 0 when there is none.
func kilobytes(status, name string) float64 {
	_, rest, _ := strings.Cut(status, name)
	if fields := strings.Fields(rest); len(fields) > 0 {
		n, _ := strconv.ParseFloat(fields[0], 64)
		return n * 1024
	}
	return 0
}
