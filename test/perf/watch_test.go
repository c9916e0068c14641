//go:build perf

package perf

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
)

// templates follows the template annotations of a namespace's Deployments, as a watch shows them.
type templates struct {
	w      *world
	events chan sighting
	seen   map[string]map[string]string
}

// sighting is a Deployment's template annotations at the moment that a watch showed them.
type sighting struct {
	name        string
	annotations map[string]string
	at          time.Time
}

// watchBuffer holds all that a benchmark may see while it does not look.
const watchBuffer = 100_000

func (w *world) watcher() client.WithWatch {
	w.Helper()
	c, err := client.NewWithWatch(cluster.Config, client.Options{})
	w.Must(err)
	return c
}

func (w *world) watchTemplates() *templates {
	w.Helper()
	c, list := w.watcher(), &appsv1.DeploymentList{}
	w.Must(c.List(w.Ctx, list, client.InNamespace(w.NS)))
	t := &templates{w: w, events: make(chan sighting, watchBuffer), seen: map[string]map[string]string{}}
	for _, d := range list.Items {
		t.seen[d.Name] = d.Spec.Template.Annotations
	}
	stream, err := c.Watch(w.Ctx, &appsv1.DeploymentList{}, client.InNamespace(w.NS), from(list.ResourceVersion))
	w.Must(err)
	w.Cleanup(stream.Stop)
	go t.follow(stream)
	return t
}

func from(resourceVersion string) client.ListOption {
	return &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: resourceVersion}}
}

// follow takes the time right at the watch, so that it does not matter when the benchmark looks.
func (t *templates) follow(stream watch.Interface) {
	for event := range stream.ResultChan() {
		if d, ok := event.Object.(*appsv1.Deployment); ok {
			t.events <- sighting{name: d.Name, annotations: d.Spec.Template.Annotations, at: time.Now()}
		}
	}
	close(t.events)
}

// changed waits until an annotation of the named Deployments' templates is another than at the last look, and returns when
// each first was.
func (t *templates) changed(annotation string, names ...string) []time.Time {
	t.w.Helper()
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	var times []time.Time
	timeout := time.After(patience)
	for len(wanted) > 0 {
		select {
		case s, ok := <-t.events:
			if !ok {
				t.w.Fatal("the watch of Deployments ended")
			}
			if wanted[s.name] && s.annotations[annotation] != t.seen[s.name][annotation] {
				times = append(times, s.at)
				delete(wanted, s.name)
			}
			t.seen[s.name] = s.annotations
		case <-timeout:
			t.w.Fatalf("%d of %d Deployments still not changed after %s", len(wanted), len(names), patience)
		}
	}
	return times
}

// ownerWrites follows the owners of a namespace's revisions, as a watch shows them.
type ownerWrites struct {
	stream watch.Interface
	counts chan []int
}

func (w *world) watchOwners() *ownerWrites {
	w.Helper()
	c, list := w.watcher(), &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	w.Must(c.List(w.Ctx, list, client.InNamespace(w.NS)))
	stream, err := c.Watch(w.Ctx, list, client.InNamespace(w.NS), client.HasLabels{keys.Content}, from(list.ResourceVersion))
	w.Must(err)
	o := &ownerWrites{stream: stream, counts: make(chan []int, 1)}
	go o.follow()
	return o
}

// follow notes the number of owners whenever they are others than before, which tells writes of owners from all others.
func (o *ownerWrites) follow() {
	var counts []int
	last := map[string]string{}
	for event := range o.stream.ResultChan() {
		meta, ok := event.Object.(*metav1.PartialObjectMetadata)
		if !ok {
			continue
		}
		var owners strings.Builder
		for _, o := range meta.OwnerReferences {
			owners.WriteString(string(o.UID) + " ")
		}
		if event.Type != watch.Deleted && owners.String() != last[meta.Name] {
			last[meta.Name] = owners.String()
			counts = append(counts, len(meta.OwnerReferences))
		}
	}
	o.counts <- counts
}

// stop returns the number of owners after each write.
func (o *ownerWrites) stop() []int {
	o.stream.Stop()
	return <-o.counts
}
