package render_test

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/kustomize/kyaml/kio"
	sigsyaml "sigs.k8s.io/yaml"

	"confrev.io/confrev/internal/render"
)

// thousand returns a stream of 1,000 Deployments, each with a ConfigMap of its own.
func thousand() []byte {
	var text strings.Builder
	for i := range 1000 {
		app := fmt.Sprintf("app-%d", i)
		text.WriteString("---\n" + strings.Replace(appObject, "name: app}", "name: "+app+"}", 1))
		text.WriteString("---\n" + strings.NewReplacer("{name: app}", "{name: "+app+"}", "metadata: {name: web}", fmt.Sprintf("metadata: {name: web-%d}", i)).Replace(web))
	}
	return []byte(text.String())
}

// How long rendering takes, compared to reading and writing the same text with kyaml, which does nothing else.
func BenchmarkThousand(b *testing.B) {
	text := thousand()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	var plain time.Duration
	for b.Loop() {
		out, err := render.Render([]render.File{{Name: "in.yaml", Data: text}}, render.Options{})
		if err != nil || len(out.Revisions) != 1000 {
			b.Fatal(len(out.Revisions), err)
		}
		b.StopTimer()
		begin := time.Now()
		nodes, err := kio.FromBytes(text)
		if err == nil {
			_, err = kio.StringAll(nodes)
		}
		if err != nil {
			b.Fatal(err)
		}
		plain += time.Since(begin)
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed())/float64(plain), "times-kyaml")
}

// BenchmarkJSONList renders a List of 20,000 objects (5 MB) in JSON, which becomes YAML, of which one workload refers to one source. Most of
// the memory that it takes is needed at one time, so peak-MB is what counts: the most that the heap held.
func BenchmarkJSONList(b *testing.B) {
	var text strings.Builder
	text.WriteString(`{"apiVersion":"v1","kind":"List","items":[` + jsonOf(b, webObject))
	app := jsonOf(b, appObject)
	text.WriteString("," + app)
	for i := range 19_998 {
		text.WriteString("," + strings.NewReplacer(`"app"`, fmt.Sprintf(`"app-%d"`, i), `"blue"`, `"`+strings.Repeat("light blue, ", 12)+`\n"`).Replace(app))
	}
	text.WriteString("]}")
	data := []byte(text.String())
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	runtime.GC()
	peak := watchHeap(b)
	for b.Loop() {
		out, err := render.Render([]render.File{{Name: "in.json", Data: data}}, render.Options{})
		if err != nil || len(out.Revisions) != 1 {
			b.Fatal(len(out.Revisions), err)
		}
	}
	b.ReportMetric(float64(peak())/1e6, "peak-MB")
}

func jsonOf(b *testing.B, object string) string {
	b.Helper()
	text, err := sigsyaml.YAMLToJSON([]byte(object))
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

// watchHeap looks at the heap's size until its result is called, which returns the largest.
func watchHeap(b *testing.B) (peak func() uint64) {
	b.Helper()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	stop, largest := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		for {
			select {
			case <-stop:
				largest <- most
				return
			case <-time.After(time.Millisecond):
				metrics.Read(sample)
				most = max(most, sample[0].Value.Uint64())
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-largest
	}
}
