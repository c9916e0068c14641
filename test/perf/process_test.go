//go:build perf

package perf

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/env"
)

// process is a running confrev, or another controller.
type process struct {
	// Confrev is nil for another controller.
	*env.Confrev
	other   *commanded
	w       *world
	started time.Time
	// ready is how long it took to become ready.
	ready time.Duration
	// stop may be called again.
	stop func()
}

// start starts confrev with the given flags, and stops it at the end. It logs as in production.
func (w *world) start(args ...string) *process {
	w.Helper()
	if driven != nil {
		return w.startOther()
	}
	args = append(append([]string{"--log-level", "info", "--rollouts-per-hour", "100000"}, args...), flags...)
	confrev, err := cluster.Confrev(w.Ctx, "confrev", binary, args...)
	w.Must(err)
	p := &process{Confrev: confrev, w: w, started: time.Now()}
	p.stop = sync.OnceFunc(func() {
		if err := p.Stop(); err != nil {
			w.Errorf("confrev did not end well, see %s: %v", p.Log, err)
		}
	})
	err = confrev.Start(w.Ctx)
	p.ready = time.Since(p.started)
	// Also when it did not become ready: it runs anyway, and would continue to pin in everyone's measurements.
	w.Cleanup(p.stop)
	w.Must(err)
	w.Must(cluster.WaitWebhook(w.Ctx))
	return p
}

func (p *process) metrics() env.Metrics {
	p.w.Helper()
	metrics, err := p.ReadMetrics(context.Background())
	p.w.Must(err)
	return metrics
}

// PID returns the process's id.
func (p *process) PID() int {
	if p.other != nil {
		return p.other.running.Process.Pid
	}
	return p.Confrev.PID()
}

// log returns the file that the process logs to.
func (p *process) log() string {
	if p.other != nil {
		return p.other.log()
	}
	return p.Log
}

// cpu returns how long the process has used a processor.
func (p *process) cpu() time.Duration {
	p.w.Helper()
	process, err := procfs.NewProc(p.PID())
	p.w.Must(err)
	stat, err := process.Stat()
	p.w.Must(err)
	return time.Duration(stat.CPUTime() * float64(time.Second))
}

const (
	// lookEvery is how often idle looks.
	lookEvery = 50 * time.Millisecond
	// quiet is how long confrev must ask for nothing to be idle: longer than it settles and gathers by default.
	quiet = 3 * time.Second
)

// idle waits until confrev asks the API server for nothing any more, and returns when that began. It looks at the audit
// log, since to ask confrev would add to its CPU. It counts looks, not time: on a busy machine one look can take seconds
// in which much happens. A confrev that has not begun yet looks idle too: where there is work to do, wait for its result
// first.
func (p *process) idle() time.Time {
	p.w.Helper()
	same, last, mark := 0, time.Now(), p.w.mark()
	for begin := last; same < int(quiet/lookEvery); time.Sleep(lookEvery) {
		same++
		// Taken before reading, so that no request falls between two looks.
		next := p.w.mark()
		since, err := asked(mark)
		p.w.Must(err)
		if len(withoutWatches(since)) > 0 {
			same, last = 0, time.Now()
		}
		mark = next
		if time.Since(begin) < max(patience, p.w.Patience) {
			continue
		}
		if p.other != nil {
			// Some controllers always ask for something.
			return last
		}
		p.w.Fatalf("confrev is not idle after %s, see %s", max(patience, p.w.Patience), p.log())
	}
	return last
}

// rest waits until the process uses little of a processor. One that has asked for all that it needs may still look at each workload, and memory that it took
// for that is not returned before.
func (p *process) rest() {
	p.w.Helper()
	for begin := time.Now(); ; {
		before := p.cpu()
		time.Sleep(quiet)
		if p.cpu()-before < quiet/20 {
			return
		}
		if time.Since(begin) < max(patience, p.w.Patience) {
			continue
		}
		if p.other != nil {
			// Some controllers always do something.
			return
		}
		p.w.Fatalf("confrev does not come to rest within %s, see %s", max(patience, p.w.Patience), p.log())
	}
}

// startPinning starts confrev and waits until the named workloads, which have no pins yet, have them, and it is idle.
// What is measured next would else be mixed with the first pins.
func (w *world) startPinning(kind workload.Kind, names []string, args ...string) (*process, *templates) {
	w.Helper()
	templates := w.watchTemplates(kind)
	confrev := w.start(args...)
	if driven == nil {
		templates.changed(keys.Pins, names...)
	}
	confrev.idle()
	return confrev, templates
}

// memory is what a process has in RAM, in bytes.
type memory struct {
	now, peak float64
	// anonymous leaves out the pages of the binary; heap is what Go's heap has in use.
	anonymous, heap float64
}

func (p *process) memory() memory {
	p.w.Helper()
	p.rest()
	// Before the metrics are read: that costs memory too.
	process, err := procfs.NewProc(p.PID())
	p.w.Must(err)
	status, err := process.NewStatus()
	p.w.Must(err)
	m := memory{now: float64(status.VmRSS), peak: float64(status.VmHWM), anonymous: float64(status.RssAnon)}
	if p.Confrev != nil {
		m.heap = p.metrics().Sum("go_memstats_heap_alloc_bytes")
	}
	return m
}
