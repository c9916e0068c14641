//go:build perf

package perf

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	clientwatch "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
)

// templates follows the template annotations of a namespace's workloads of a kind, as a watch shows them.
type templates struct {
	w      *world
	events chan sighting
	seen   map[string]map[string]string
}

// sighting is a workload's template annotations at the moment that a watch showed them.
type sighting struct {
	name        string
	annotations map[string]string
	at          time.Time
}

// watchBuffer holds all that a benchmark may see while it does not look.
const watchBuffer = 100_000

// watch lists objects of the namespace, and watches from then on those of them with some labels. The API server ends a watch whose client is too
// slow for it, as this one may be on a busy machine; it then continues after the last event.
func (w *world) watch(list client.ObjectList, labels client.HasLabels) watch.Interface {
	w.Helper()
	c, err := client.NewWithWatch(cluster.Config, client.Options{})
	w.Must(err)
	w.List(list)
	stream, err := clientwatch.NewRetryWatcherWithContext(w.Ctx, list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, list, client.InNamespace(w.NS), labels, &client.ListOptions{Raw: &options})
		},
	})
	w.Must(err)
	w.Cleanup(stream.Stop)
	return stream
}

func (w *world) watchTemplates(kind workload.Kind) *templates {
	w.Helper()
	list := kind.NewList()
	stream := w.watch(list, nil)
	t := &templates{w: w, events: make(chan sighting, watchBuffer), seen: map[string]map[string]string{}}
	w.Must(apimeta.EachListItem(list, func(obj runtime.Object) error {
		s, err := look(kind, obj)
		t.seen[s.name] = s.annotations
		return err
	}))
	go t.follow(kind, stream)
	return t
}

// follow takes the time right at the watch, so that it does not matter when the benchmark looks.
func (t *templates) follow(kind workload.Kind, stream watch.Interface) {
	for event := range stream.ResultChan() {
		if s, err := look(kind, event.Object); err == nil {
			t.events <- s
		}
	}
	close(t.events)
}

func look(kind workload.Kind, obj runtime.Object) (sighting, error) {
	at := time.Now()
	meta, ok := obj.(client.Object)
	if !ok {
		return sighting{}, fmt.Errorf("the watch has sent a %T", obj)
	}
	template, err := kind.Template(meta)
	if err != nil {
		return sighting{}, err
	}
	annotations := template.Annotations
	if driven != nil {
		text, err := json.Marshal(template)
		if err != nil {
			return sighting{}, err
		}
		annotations = maps.Clone(annotations)
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[wholeTemplate] = string(text)
	}
	return sighting{name: meta.GetName(), annotations: annotations, at: at}, nil
}

// changed waits until an annotation of the named workloads' templates is another than at the last look, and returns when
// each first was.
func (t *templates) changed(annotation string, names ...string) []time.Time {
	t.w.Helper()
	var times []time.Time
	for _, at := range t.changedEach(annotation, names) {
		times = append(times, at)
	}
	return times
}

// changedEach does the same, and calls yield at each of them, counted from 0, so that something can be done in between.
func (t *templates) changedEach(annotation string, names []string) iter.Seq2[int, time.Time] {
	return func(yield func(int, time.Time) bool) {
		n := 0
		for _, at := range t.changedNames(annotation, names) {
			if !yield(n, at) {
				return
			}
			n++
		}
	}
}

// changedNames does the same, and calls yield with the name of each.
func (t *templates) changedNames(annotation string, names []string) iter.Seq2[string, time.Time] {
	return func(yield func(string, time.Time) bool) {
		t.w.Helper()
		wanted := map[string]bool{}
		for _, name := range names {
			wanted[name] = true
		}
		timeout := time.After(max(patience, t.w.Patience))
		for len(wanted) > 0 {
			select {
			case s, ok := <-t.events:
				if !ok {
					t.w.Fatal("the watch of workloads ended")
				}
				changed := wanted[s.name] && s.annotations[annotation] != t.seen[s.name][annotation]
				t.seen[s.name] = s.annotations
				if changed {
					delete(wanted, s.name)
					if !yield(s.name, s.at) {
						return
					}
				}
			case <-timeout:
				t.w.Fatalf("%d of %d workloads still not changed in time", len(wanted), len(names))
			}
		}
	}
}

// watchOwners follows the owners of a namespace's revisions, as a watch shows them. stop ends that and returns the number of owners after
// each write of them: whenever they are others than before, which tells these writes from all others.
func (w *world) watchOwners() (stop func() []int) {
	w.Helper()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	stream, counts := w.watch(list, client.HasLabels{keys.Content}), make(chan []int, 1)
	go func() {
		var all []int
		last := map[string][]metav1.OwnerReference{}
		for event := range stream.ResultChan() {
			meta, ok := event.Object.(*metav1.PartialObjectMetadata)
			if ok && event.Type != watch.Deleted && !reflect.DeepEqual(meta.OwnerReferences, last[meta.Name]) {
				last[meta.Name] = meta.OwnerReferences
				all = append(all, len(meta.OwnerReferences))
			}
		}
		counts <- all
	}()
	return func() []int {
		stream.Stop()
		return <-counts
	}
}
