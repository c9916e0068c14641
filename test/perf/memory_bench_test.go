//go:build perf

package perf

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/workload"
)

// unrelated is how many ConfigMaps, and how many Secrets, no one tracks, with what size in bytes, and how many are tracked.
type unrelated struct{ each, size, tracked int }

// BenchmarkMemory measures what ConfigMaps and Secrets that no one tracks cost confrev, after it has started: none, small ones, and the same
// with their full size. CONFREV_BENCH_OBJECTS and CONFREV_BENCH_KIB are other sizes of the longest one: how many ConfigMaps and Secrets there
// are in all, and how large each is.
func BenchmarkMemory(b *testing.B) {
	short := unrelated{each: 2000, size: 20 << 10}
	b.Run("ConfigMaps", func(b *testing.B) { benchmarkMemory(b, short) })
	b.Run("Secrets", func(b *testing.B) { benchmarkMemory(b, short, "--secrets") })
	objects, kib := size(b, "CONFREV_BENCH_OBJECTS", 20_000), size(b, "CONFREV_BENCH_KIB", 100)
	b.Run(fmt.Sprintf("objects=%d,KiB=%d", objects, kib), func(b *testing.B) {
		long(b)
		benchmarkMemory(b, unrelated{each: objects / 2, size: kib << 10, tracked: 50}, "--secrets")
	})
}

func benchmarkMemory(b *testing.B, u unrelated, args ...string) {
	w := newWorld(b)
	w.patientFor(2 * u.each)
	if u.tracked > 0 {
		confrev, _ := w.startPinning(workload.Deployment, w.tracked("web", u.tracked), args...)
		confrev.stop()
	}
	empty := w.memoryAfterStart(args...)
	w.fill(u.each, 1)
	small := w.memoryAfterStart(args...)
	w.fill(u.each, u.size)
	full := w.memoryAfterStart(args...)
	t := newTable(b, fmt.Sprintf("MiB, of %d ConfigMaps and %d Secrets; %d tracked", u.each, u.each, u.tracked), "RSS", "peak RSS", "anonymous", "Go heap")
	s := measured(b, 2*u.each)
	for _, m := range []struct {
		name string
		memory
	}{{"none", empty}, {"small", small}, {"full", full}} {
		t.row(m.name, m.now/mebibyte, m.peak/mebibyte, m.anonymous/mebibyte, m.heap/mebibyte)
		s.set(m.name+": resident", m.now/mebibyte, "MiB")
		s.set(m.name+": peak resident", m.peak/mebibyte, "MiB")
		s.set(m.name+": anonymous", m.anonymous/mebibyte, "MiB")
	}
	s.set("full over small: resident", full.now/small.now, times)
	t.print()
}

func (w *world) memoryAfterStart(args ...string) memory {
	w.Helper()
	confrev := w.start(args...)
	defer confrev.stop()
	confrev.idle()
	return confrev.memory()
}

// fill creates ConfigMaps and Secrets that no one tracks, or gives them another size.
func (w *world) fill(each, size int) {
	w.Helper()
	filling := strings.Repeat("x", size)
	w.many(each, creating, func(i int) error {
		name := fmt.Sprint("unrelated-", i)
		for _, obj := range []client.Object{configMap(name, filling), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"key": filling},
		}} {
			obj.SetNamespace(w.NS)
			err := cluster.Client.Create(w.Ctx, obj)
			if err != nil {
				// It is there already.
				obj.SetResourceVersion("")
				err = cluster.Client.Update(w.Ctx, obj)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
