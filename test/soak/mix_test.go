//go:build soak

package soak

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
)

// step is something that users do, with how often it is drawn, in parts of all weights.
type step struct {
	name   string
	weight int
	do     func(w *world) error
}

var mix = []step{
	{"edit", 45, (*world).edit},
	{"deploy", 20, (*world).deploy},
	{"undo", 10, (*world).undo},
	{"scale", 15, (*world).scale},
	{"delete and create a workload", 6, (*world).replaceWorkload},
	{"delete and create a source", 4, (*world).replaceSource},
}

func (w *world) draw() step {
	sum := 0
	for _, s := range mix {
		sum += s.weight
	}
	at := w.random.IntN(sum)
	for _, s := range mix {
		if at -= s.weight; at < 0 {
			return s
		}
	}
	panic("weights do not add up")
}

// columns are what is shown of each sample.
var columns = []string{"anonymous MiB", "resident MiB", "goroutines", "open files", "revisions", "queued", "CPU s", "steps"}

// mix does steps for a while, and samples once a minute, or more often where the while is short.
func (w *world) mix(d time.Duration) (samples []sample) {
	w.Helper()
	every := min(time.Minute, d/40)
	fmt.Printf("%10s  %s\n", "after", strings.Join(columns, "  "))
	step, look := time.NewTicker(pause), time.NewTicker(every)
	defer step.Stop()
	defer look.Stop()
	began := time.Now()
	for over := time.After(d); ; {
		select {
		case <-over:
			return samples
		case <-w.Ctx.Done():
			w.Fatal(w.Ctx.Err())
		case <-step.C:
			s := w.draw()
			if err := s.do(w); err != nil {
				w.Fatalf("%s: %v", s.name, err)
			}
			w.done[s.name]++
		case <-look.C:
			if confrev.Ended() {
				w.Fatalf("confrev has ended, see %s", confrev.Log)
			}
			samples = append(samples, w.sample())
			printRow(time.Since(began), samples[len(samples)-1])
		}
	}
}

// printRow prints at once: someone may look on.
func printRow(after time.Duration, s sample) {
	row := fmt.Sprintf("%10s", after.Round(time.Second))
	for _, column := range columns {
		row += fmt.Sprintf("  %*.0f", len(column), s[column])
	}
	fmt.Println(row)
}

const mebibyte = 1 << 20

// sample looks at the process, and at what it says of itself.
func (w *world) sample() sample {
	w.Helper()
	// Before the metrics are read: that costs memory too.
	process, err := procfs.NewProc(confrev.PID())
	w.Must(err)
	status, err := process.NewStatus()
	w.Must(err)
	files, err := process.FileDescriptorsLen()
	w.Must(err)
	metrics, err := confrev.ReadMetrics(w.Ctx)
	w.Must(err)
	revisions := &corev1.ConfigMapList{}
	w.List(revisions, client.HasLabels{keys.Content})
	steps := 0
	for _, n := range w.done {
		steps += n
	}
	s := sample{
		"anonymous MiB": float64(status.RssAnon) / mebibyte, "resident MiB": float64(status.VmRSS) / mebibyte,
		"open files": float64(files), "revisions": float64(len(revisions.Items)), "steps": float64(steps),
	}
	for of, metric := range map[string]string{"goroutines": "go_goroutines", "queued": "workqueue_depth", "CPU s": "process_cpu_seconds_total"} {
		// The sum of a metric that is missing is 0, too.
		if _, ok := metrics[metric]; ok {
			s[of] = metrics.Sum(metric)
		}
	}
	return s
}

// steps returns what was done how often.
func (w *world) steps() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(w.done)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, w.done[name]))
	}
	return strings.Join(parts, ", ")
}

func newRandom() *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }
