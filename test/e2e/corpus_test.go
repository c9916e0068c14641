//go:build e2e

package e2e

import (
	"os"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/render"
	"confrev.io/confrev/test/corpus"
)

// What the API server takes, it takes when rendered: manifests of the corpus, with the sources that they lack.
func TestRenderedCorpusIsAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	helm, err := cluster.Tool(w.Ctx, "helm")
	w.Must(err)
	streams, err := corpus.Streams(w.Ctx, helm)
	w.Must(err)
	tried, accepted := 0, 0
	for _, stream := range streams {
		for _, pair := range changes(stream) {
			if w.refuses(pair.before) != nil {
				continue
			}
			tried++
			if err := w.refuses(pair.after); err != nil {
				t.Errorf("%s: %v", stream.Name, err)
				continue
			}
			accepted++
		}
	}
	t.Logf("%d changed or new objects, %d of them accepted", tried, accepted)
	if tried < 400 {
		t.Error("so few: the test reads the corpus wrongly")
	}
}

// change is an object before and after rendering. A copy was its source before.
type change struct{ before, after *unstructured.Unstructured }

func changes(stream corpus.Stream) []change {
	var found []change
	for _, file := range stream.Files {
		single, err := corpus.Stream{Name: file.Name, Files: []render.File{file}}.Complete()
		if err != nil {
			continue
		}
		out, err := render.Render(single.Files, render.Options{})
		if err != nil || len(out.Revisions) == 0 {
			continue
		}
		var before []map[string]any
		for _, file := range single.Files {
			objects, err := corpus.Objects(file.Data)
			if err != nil {
				continue
			}
			before = append(before, objects...)
		}
		found = append(found, paired(before, out.Text)...)
	}
	return found
}

func paired(before []map[string]any, text []byte) []change {
	after, err := corpus.Objects(text)
	if err != nil {
		return nil
	}
	var found []change
	next := 0
	for _, object := range after {
		u := &unstructured.Unstructured{Object: object}
		if u.GetAnnotations()[keys.SourceName] != "" {
			// The one before it.
			found = append(found, change{&unstructured.Unstructured{Object: before[next-1]}, u})
			continue
		}
		if !reflect.DeepEqual(before[next], object) {
			found = append(found, change{&unstructured.Unstructured{Object: before[next]}, u})
		}
		next++
	}
	return found
}

// refuses reports why the API server would not create an object in the test's namespace.
func (w *world) refuses(object *unstructured.Unstructured) error {
	object = object.DeepCopy()
	object.SetNamespace(w.NS)
	return cluster.Client.Create(w.Ctx, object, client.DryRunAll)
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func convert(t *testing.T, object map[string]any, into any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, into); err != nil {
		t.Fatal(err)
	}
}
