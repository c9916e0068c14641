package operator

import (
	"context"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/workload"
)

// holders are the kinds of holders that the cache keeps as metadata: a workload has a dozen of them, of which a few strings matter, and an emptied
// ReplicaSet takes a kilobyte and a half. They are fetched whole and reduced before they reach the cache, which believes that they are metadata.
type holders map[schema.GroupVersionKind]workload.HolderKind

// holdersOf returns the kinds of holders that are not kinds of workloads too: those are needed as workloads.
func holdersOf(kinds []workload.Kind) holders {
	all := holders{}
	for _, kind := range kinds {
		all[kind.Holder.GVK] = kind.Holder
	}
	for _, kind := range kinds {
		delete(all, kind.GVK)
	}
	return all
}

// cached returns an empty object of the type in which objects like obj are cached.
func (h holders) cached(obj client.Object) client.Object {
	if gvk := workload.GVKOf(obj); h.has(gvk) {
		return metadata.New(gvk)
	}
	return obj
}

func (h holders) has(gvk schema.GroupVersionKind) bool {
	_, has := h[gvk]
	return has
}

type newInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

// informers returns what makes the informers of a cache. Those of holders fetch them in a namespace, or in all if it is empty, with a client that is made
// when it is needed.
func (h holders) informers(namespace string, newClient func() (client.WithWatch, error)) newInformer {
	newClient = sync.OnceValues(newClient)
	return func(lister toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		if meta, ok := obj.(*metav1.PartialObjectMetadata); ok && h.has(meta.GroupVersionKind()) {
			lister = reducing{kind: h[meta.GroupVersionKind()], namespace: namespace, client: newClient}.lister()
		}
		return byNamespace{toolscache.NewSharedIndexInformer(lister, obj, resync, indexers)}
	}
}

// reducing lists and watches holders of one kind, and reduces them.
type reducing struct {
	kind      workload.HolderKind
	namespace string
	client    func() (client.WithWatch, error)
}

func (r reducing) lister() toolscache.ListerWatcher {
	return &toolscache.ListWatch{ListWithContextFunc: r.list, WatchFuncWithContext: r.watch}
}

func (r reducing) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	c, err := r.client()
	if err != nil {
		return nil, err
	}
	list := r.kind.NewList()
	if err := c.List(ctx, list, r.options(options)); err != nil {
		return nil, err
	}
	items, err := index.Items(list)
	if err != nil {
		return nil, err
	}
	reduced := metadata.NewList(r.kind.GVK)
	reduced.ResourceVersion, reduced.Continue, reduced.RemainingItemCount = list.GetResourceVersion(), list.GetContinue(), list.GetRemainingItemCount()
	for _, obj := range items {
		reduced.Items = append(reduced.Items, *r.kind.Reduce(obj))
	}
	return reduced, nil
}

func (r reducing) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	c, err := r.client()
	if err != nil {
		return nil, err
	}
	watching, err := c.Watch(ctx, r.kind.NewList(), r.options(options))
	if err != nil {
		return nil, err
	}
	return watch.Filter(watching, r.reduce), nil
}

// reduce reduces the object of an event. That of a bookmark is empty, except for its version, and an annotation at the end of a list that is streamed.
func (r reducing) reduce(event watch.Event) (watch.Event, bool) {
	obj, ok := event.Object.(client.Object)
	switch {
	case !ok:
		// An error has a Status.
	case event.Type == watch.Bookmark:
		bookmark := metadata.New(r.kind.GVK)
		bookmark.ResourceVersion, bookmark.Annotations = obj.GetResourceVersion(), obj.GetAnnotations()
		event.Object = bookmark
	default:
		event.Object = r.kind.Reduce(obj)
	}
	return event, true
}

func (r reducing) options(raw metav1.ListOptions) *client.ListOptions {
	return &client.ListOptions{Namespace: r.namespace, Limit: raw.Limit, Continue: raw.Continue, Raw: &raw}
}

// holderReader reads from a cache that has holders as metadata: a list of holders gets what is left of them.
type holderReader struct {
	client.Reader
	holders holders
}

func (r holderReader) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	gvk := workload.GVKOf(into)
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	if _, asMetadata := into.(*metav1.PartialObjectMetadataList); asMetadata || !r.holders.has(gvk) {
		return r.Reader.List(ctx, into, options...)
	}
	reduced := metadata.NewList(gvk)
	if err := r.Reader.List(ctx, reduced, options...); err != nil {
		return err
	}
	into.SetResourceVersion(reduced.ResourceVersion)
	return r.holders[gvk].Restore(into, reduced.Items)
}
