package render_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/kustomize/kyaml/kio"

	"confrev.io/confrev/internal/render"
)

// thousand is a stream of 1,000 Deployments, each with a ConfigMap of its own.
func thousand() []byte {
	var text strings.Builder
	for i := range 1000 {
		app := fmt.Sprintf("app-%d", i)
		text.WriteString("---\n" + strings.Replace(appObject, "name: app}", "name: "+app+"}", 1))
		text.WriteString("---\n" + strings.NewReplacer("{name: app}", "{name: "+app+"}", "metadata: {name: web}", fmt.Sprintf("metadata: {name: web-%d}", i)).Replace(web))
	}
	return []byte(text.String())
}

// How long rendering takes, beside reading and writing the same text with kyaml, which does nothing else.
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
