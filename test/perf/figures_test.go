//go:build perf

package perf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// scenario is what one benchmark measured. It is one line of JSON, and its figures are rows of the table at the end.
type scenario struct {
	Name string `json:"name"`
	// N is how many workloads, pods or objects it is about.
	N int `json:"n"`
	// Controller is what was measured: confrev, or the command in its place.
	Controller string   `json:"controller"`
	Figures    []figure `json:"figures"`
	// Floor is the least that any tool must do, in the same run, and Ratio the first figure that is a multiple of it.
	Floor *figure `json:"floor,omitempty"`
	Ratio float64 `json:"ratio,omitempty"`
	// Spread is that of the first figure that has one.
	Spread float64 `json:"spread,omitempty"`
	// Failed is true for a benchmark that failed: its figures may be of another thing.
	Failed bool `json:"failed,omitempty"`

	b *testing.B
}

// figure is a number with a unit: a median if there are several samples.
type figure struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Samples int     `json:"samples,omitempty"`
	Min     float64 `json:"min,omitempty"`
	Max     float64 `json:"max,omitempty"`
	// Spread is how far apart the tenth and the ninetieth percentile are, in medians.
	Spread float64 `json:"spread,omitempty"`
}

// times is the unit of ratios.
const times = "×"

var (
	scenarios   []*scenario
	scenariosMu sync.Mutex
)

// measured returns the scenario of a benchmark, which n is the size of. What is added to it also goes to the benchmark's own line.
func measured(b *testing.B, n int) *scenario {
	b.Helper()
	scenariosMu.Lock()
	defer scenariosMu.Unlock()
	name := strings.TrimPrefix(b.Name(), "Benchmark")
	if i := slices.IndexFunc(scenarios, func(s *scenario) bool { return s.Name == name }); i >= 0 {
		return scenarios[i]
	}
	s := &scenario{Name: name, N: n, Controller: measuring(), b: b}
	scenarios = append(scenarios, s)
	b.Cleanup(func() {
		s.Failed = b.Failed()
		// At once: a run that ends too early still leaves what it measured.
		if err := s.keep(); err != nil {
			b.Error(err)
		}
	})
	b.ReportMetric(0, "ns/op") // the whole with its pauses says nothing
	return s
}

func (s *scenario) add(f figure) {
	s.Figures = append(s.Figures, f)
	if s.Spread == 0 {
		s.Spread = f.Spread
	}
	if s.Ratio == 0 && f.Unit == times {
		s.Ratio = f.Value
	}
	s.b.ReportMetric(f.Value, metric(f))
}

// metric returns the name of a figure in the benchmark's own line, which separates figures by spaces.
func metric(f figure) string {
	unit := strings.NewReplacer(times, "ratio", " ", "-").Replace(f.Unit)
	return strings.TrimSuffix(strings.ReplaceAll(f.Name, " ", "-")+"-"+unit, "-")
}

// set adds a figure that was measured once, or counted.
func (s *scenario) set(name string, value float64, unit string) {
	s.add(figure{Name: name, Value: rounded(value), Unit: unit})
}

// took adds a figure that is a median of durations.
func (s *scenario) took(name string, d []time.Duration) { s.add(durations(name, d)) }

// least adds the floor.
func (s *scenario) least(name string, d []time.Duration) {
	f := durations(name, d)
	s.Floor = &f
	s.b.ReportMetric(f.Value, "floor-"+f.Unit)
}

// over adds how many times as long as the floor's median something took.
func (s *scenario) over(name string, took time.Duration) {
	s.set(name, ms(took)/s.Floor.Value, times)
}

func durations(name string, d []time.Duration) figure {
	f := figure{Name: name, Unit: "ms", Value: rounded(ms(middle(d))), Samples: len(d)}
	f.Min, f.Max = rounded(ms(quantile(d, 0))), rounded(ms(quantile(d, 1)))
	if len(d) > 1 && f.Value > 0 {
		f.Spread = rounded(ms(quantile(d, .9)-quantile(d, .1)) / f.Value)
	}
	return f
}

func rounded(value float64) float64 { return math.Round(value*1000) / 1000 }

// keep appends the scenario's line to the file that CONFREV_BENCH_RESULTS names, if any.
func (s *scenario) keep() (err error) {
	path := os.Getenv("CONFREV_BENCH_RESULTS")
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("keep figures: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return json.NewEncoder(file).Encode(s)
}

// reportAll prints all figures with their goals, and a line of JSON for each scenario.
func reportAll(out io.Writer, goals []goal) error {
	if len(scenarios) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintf(table, "\nSCENARIO\tFIGURE\tMEASURED\tSPREAD\tGOAL\t\tLAST\n")
	for _, s := range scenarios {
		for _, f := range slices.Concat(s.Figures, s.floors()) {
			cells := append([]string{s.Name, f.Name, quantity(f.Value, f.Unit), percent(f.Spread)}, cellsOf(goals, s, f)...)
			_, failed := fmt.Fprintln(table, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
			err = errors.Join(err, failed)
		}
	}
	err = errors.Join(err, table.Flush())
	_, failed := fmt.Fprintln(out)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	err = errors.Join(err, failed)
	for _, s := range scenarios {
		err = errors.Join(err, lines.Encode(s))
	}
	return err
}

func (s *scenario) floors() []figure {
	if s.Floor == nil {
		return nil
	}
	floor := *s.Floor
	floor.Name = "floor: " + floor.Name
	return []figure{floor}
}

func quantity(value float64, unit string) string {
	return strings.TrimSpace(strconv.FormatFloat(value, 'f', -1, 64) + " " + unit)
}

func percent(share float64) string {
	if share == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}
