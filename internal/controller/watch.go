package controller

import (
	"context"
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
)

type (
	refQueue   = workqueue.TypedRateLimitingInterface[revision.Ref]
	refHandler = handler.TypedFuncs[client.Object, revision.Ref]
)

func watch(c cache.Cache, obj client.Object, h refHandler) source.TypedSource[revision.Ref] {
	return source.TypedKind[client.Object, revision.Ref](c, obj, h)
}

// itself enqueues a revision at its own events.
func (r *revisions) itself(kind pin.Kind) refHandler {
	enqueue := func(obj client.Object, q refQueue) {
		if revision.IsRevision(obj) {
			q.Add(revision.Ref{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()})
		}
	}
	return refHandler{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q refQueue) { enqueue(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q refQueue) { enqueue(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q refQueue) { enqueue(e.Object, q) },
	}
}

// pinnedBy enqueues the revisions that an object pins, or pinned before the event.
func (r *revisions) pinnedBy(pins func(client.Object) []string) refHandler {
	enqueue := func(ctx context.Context, namespace string, texts []string, q refQueue) {
		for _, text := range texts {
			// An index holds a revision in the form of a source.
			named, err := pin.ParseSource(text)
			if err != nil || !r.options.enabled(named.Kind) {
				continue
			}
			ref := revision.Ref{Kind: named.Kind, Namespace: namespace, Name: named.Name}
			q.AddAfter(ref, r.gather(ctx, ref))
		}
	}
	return refHandler{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q refQueue) {
			enqueue(ctx, e.Object.GetNamespace(), pins(e.Object), q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q refQueue) {
			before, after := pins(e.ObjectOld), pins(e.ObjectNew)
			slices.Sort(before)
			slices.Sort(after)
			if !slices.Equal(before, after) {
				enqueue(ctx, e.ObjectNew.GetNamespace(), append(before, after...), q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q refQueue) {
			enqueue(ctx, e.Object.GetNamespace(), pins(e.Object), q)
		},
	}
}

const (
	// gatherPerOwner and gatherMost say how long to gather further events of a revision's users before its owners are
	// written: the longer, the more it has already. The first owner is written at once, so that garbage collection
	// always finds one; a thousand workloads that share a source make a few writes, not a thousand (rule 12).
	gatherPerOwner = 10 * time.Millisecond
	gatherMost     = 500 * time.Millisecond
)

func (r *revisions) gather(ctx context.Context, ref revision.Ref) time.Duration {
	meta := revision.Metadata(ref)
	if err := r.client.Get(ctx, key(meta), meta); err != nil {
		// Not in the cache yet: new, or gone. Either way it has no owner that we know of.
		return 0
	}
	return min(gatherMost, time.Duration(len(meta.OwnerReferences))*gatherPerOwner)
}
