//go:build perf

package perf

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// unrelated is how many ConfigMaps, and how many Secrets, no one tracks.
	unrelated = 2000
	// unrelatedSize is the size of each, in bytes.
	unrelatedSize = 20 << 10
)

// BenchmarkMemory measures what ConfigMaps and Secrets that no one tracks cost confrev, after it has started.
func BenchmarkMemory(b *testing.B) {
	b.Run("ConfigMaps", func(b *testing.B) { benchmarkMemory(b) })
	b.Run("Secrets", func(b *testing.B) { benchmarkMemory(b, "--secrets") })
}

func benchmarkMemory(b *testing.B, args ...string) {
	w := newWorld(b)
	empty := w.memoryAfterStart(args...)
	w.unrelated()
	full := w.memoryAfterStart(args...)
	t := newTable(b, fmt.Sprintf("MiB; full = %d ConfigMaps, %d Secrets of %d KiB", unrelated, unrelated, unrelatedSize>>10),
		"RSS", "peak RSS", "Go heap")
	t.row("empty cluster", empty.now/mebibyte, empty.peak/mebibyte, empty.heap/mebibyte)
	t.row("full", full.now/mebibyte, full.peak/mebibyte, full.heap/mebibyte)
	t.print()
	b.ReportMetric(empty.now/mebibyte, "empty-MiB")
	b.ReportMetric(empty.peak/mebibyte, "empty-peak-MiB")
	b.ReportMetric(full.now/mebibyte, "full-MiB")
	b.ReportMetric(full.peak/mebibyte, "full-peak-MiB")
	b.ReportMetric(full.heap/mebibyte, "full-heap-MiB")
}

func (w *world) memoryAfterStart(args ...string) memory {
	w.Helper()
	confrev := w.start(args...)
	defer confrev.stop()
	confrev.idle()
	return confrev.memory()
}

func (w *world) unrelated() {
	w.Helper()
	filling := strings.Repeat("x", unrelatedSize)
	w.many(unrelated, creating, func(i int) error {
		name := fmt.Sprint("unrelated-", i)
		if err := w.TryCreate(configMap(name, filling)); err != nil {
			return err
		}
		return w.TryCreate(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"key": filling},
		})
	})
}
