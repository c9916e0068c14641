//go:build perf

package perf

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
)

// kindEdits is how many edits each kind is measured with.
const kindEdits = 20

// BenchmarkKinds measures, for each kind of workload, the time from the update of a ConfigMap having returned until a watch
// shows the new pin in the template of the one workload that uses it, and what that edit asks of the API server.
func BenchmarkKinds(b *testing.B) {
	for _, kind := range workload.Standard() {
		b.Run(kind.GVK.Kind, func(b *testing.B) { benchmarkKind(b, kind) })
	}
}

func benchmarkKind(b *testing.B, kind workload.Kind) {
	w := newWorld(b)
	w.Must(w.TryCreate(configMap("web", "first")))
	w.Must(w.TryCreate(w.object(kind, "web")))
	confrev, templates := w.startPinning(kind, []string{"web"}, "--settle", "0s", "--revisions-per-hour", "100000")
	var taken []time.Duration
	mark, cpu := w.mark(), confrev.cpu()
	for b.Loop() {
		for i := range kindEdits {
			edited := w.edit("web", fmt.Sprint("value ", i))
			taken = append(taken, templates.changed(keys.Pins, "web")[0].Sub(edited))
			time.Sleep(pause)
		}
	}
	confrev.idle() // owners and events are part of it
	t := newTable(b, fmt.Sprintf("%d edits", len(taken)), "median", "p95", "max")
	t.row("edit → pin", middle(taken), quantile(taken, .95), quantile(taken, 1))
	t.print()
	s := measured(b, 1)
	s.took("edit to pin", taken)
	w.reportRequests(s, w.requests(mark, len(taken)), (confrev.cpu()-cpu)/time.Duration(len(taken)))
}

// object makes a tracked workload of a kind without pods: the template is that of a Deployment.
func (w *world) object(kind workload.Kind, name string) *unstructured.Unstructured {
	w.Helper()
	template := deployment(name, name).Spec.Template
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&template)
	w.Must(err)
	obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
		"name": name, "annotations": map[string]any{"confrev.io/track": "all"},
	}}}
	obj.SetGroupVersionKind(kind.GVK)
	set := func(value any, path string) {
		w.Helper()
		w.Must(unstructured.SetNestedField(obj.Object, value, strings.Split(path, ".")...))
	}
	set(fields, kind.Path)
	if kind == workload.CronJob {
		set("0 0 1 1 *", "spec.schedule")
		set("Never", kind.Path+".spec.restartPolicy")
		return obj
	}
	set(map[string]any{"app": name}, "spec.selector.matchLabels")
	switch kind {
	case workload.Deployment, workload.StatefulSet, workload.Rollout:
		set(int64(0), "spec.replicas")
	case workload.DaemonSet:
		set(map[string]any{"no": "node"}, kind.Path+".spec.nodeSelector")
	}
	if kind == workload.Rollout {
		set(map[string]any{}, "spec.strategy.canary")
	}
	return obj
}
