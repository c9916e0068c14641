//go:build perf

package perf

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"confrev.io/confrev/test/env"
)

// quantile returns the value that a share of the sorted ones does not exceed (nearest rank).
func quantile(values []time.Duration, share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

func middle(values []time.Duration) time.Duration { return quantile(values, 0.5) }

// compare patches in turn without (variant 0) and with (variant 1) what is measured, and reports the medians and their ratio.
func compare(b *testing.B, with string, patch func(variant int) time.Duration) {
	var taken [2][]time.Duration
	for b.Loop() {
		for i := range 2 * patches {
			taken[i%2] = append(taken[i%2], patch(i%2))
		}
	}
	s := measured(b, 1)
	s.took(with, taken[1])
	s.least("the same without", taken[0])
	s.over("median over floor", middle(taken[1]))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

const mebibyte = 1 << 20

// table is what a benchmark prints for people when it has ended, with more than the figures that have goals.
type table struct {
	b    *testing.B
	rows [][]string
}

func newTable(b *testing.B, head ...string) *table { return &table{b: b, rows: [][]string{head}} }

func (t *table) row(name string, cells ...any) {
	row := []string{name}
	for _, cell := range cells {
		switch c := cell.(type) {
		case time.Duration:
			row = append(row, fmt.Sprintf("%.1f ms", ms(c)))
		case float64:
			row = append(row, fmt.Sprintf("%.2f", c))
		default:
			row = append(row, fmt.Sprint(c))
		}
	}
	t.rows = append(t.rows, row)
}

func (t *table) print() {
	// The name of the benchmark is on the line before, which has no end yet.
	fmt.Printf("\n\n%s\n", t.b.Name())
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, row := range t.rows {
		if _, err := fmt.Fprintln(out, strings.Join(row, "\t")); err != nil {
			t.b.Error(err)
		}
	}
	if err := out.Flush(); err != nil {
		t.b.Error(err)
	}
}

// tally counts requests by what they are: "patch deployments".
type tally map[string]float64

func withoutWatches(all []env.Request) []env.Request {
	return slices.DeleteFunc(all, func(r env.Request) bool { return r.Verb == "watch" })
}

// requests tallies what the controller asked since a mark, except for watches, per so many edits.
func (w *world) requests(since env.AuditMark, per int) tally {
	w.Helper()
	all, err := asked(since)
	w.Must(err)
	t := tally{}
	for _, r := range withoutWatches(all) {
		what := r.Verb + " " + r.Object.Resource
		if r.Response.Code >= 300 {
			what += fmt.Sprintf(" (%d)", r.Response.Code)
		}
		t[what] += 1 / float64(per)
	}
	return t
}

func (t tally) sum(reads bool) (sum float64) {
	for what, n := range t {
		if isRead := strings.HasPrefix(what, "get ") || strings.HasPrefix(what, "list "); isRead == reads {
			sum += n
		}
	}
	return sum
}

func (t tally) String() string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(t)) {
		parts = append(parts, fmt.Sprintf("%s %.1f", what, t[what]))
	}
	return strings.Join(parts, ", ")
}

// mark marks the end of the audit log.
func (w *world) mark() env.AuditMark {
	w.Helper()
	mark, err := cluster.AuditNow()
	w.Must(err)
	return mark
}
