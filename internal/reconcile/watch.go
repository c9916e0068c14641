package reconcile

import (
	"context"
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

type (
	refQueue   = workqueue.TypedRateLimitingInterface[revision.Ref]
	refHandler = handler.TypedFuncs[client.Object, revision.Ref]
)

func (r *Revisions) watch(obj client.Object, h refHandler) source.TypedSource[revision.Ref] {
	return source.TypedKind[client.Object, revision.Ref](r.cache, obj, h)
}

// itself enqueues a revision, or a source that may be attached, at its own events.
func (r *Revisions) itself(kind pin.Kind) refHandler {
	enqueue := func(obj client.Object, q refQueue) {
		if kept(obj) {
			q.Add(revision.Ref{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()})
		}
	}
	return refHandler{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q refQueue) { enqueue(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q refQueue) { enqueue(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q refQueue) { enqueue(e.Object, q) },
	}
}

// kept reports whether an object is one that the reconciler of revisions keeps: a revision, or a source that may be
// attached or once was.
func kept(obj client.Object) bool { return revision.IsRevision(obj) || attachable(obj) }

// attachable reports whether an object is a source that may be attached, or once was.
func attachable(obj client.Object) bool {
	return optin.Attachable(obj) || revision.Attached(obj) || slices.Contains(obj.GetFinalizers(), keys.ProtectFinalizer)
}

// used are what an object's template uses: the revisions that it pins, and the sources that it names.
type used struct{ pins, names []string }

// templateUses returns what a workload's template uses. What it names matters only where it is to be attached.
func (r *Revisions) templateUses(kind workload.Kind) func(client.Object) used {
	return func(obj client.Object) used {
		u := used{pins: index.Pins(kind.PinsText(obj))}
		if optin.ModeOf(obj.GetAnnotations()).Attaches {
			u.names = kind.Facts(obj).References
		}
		return u
	}
}

// holderUses returns what a holder's template uses.
func holderUses(kind workload.HolderKind) func(client.Object) used {
	return func(obj client.Object) used {
		facts := kind.Facts(obj)
		return used{pins: index.Pins(facts.Pins), names: facts.References}
	}
}

// usedBy enqueues what an object uses, or used before the event.
func (r *Revisions) usedBy(uses func(client.Object) used) refHandler {
	enqueue := func(ctx context.Context, namespace string, u used, q refQueue) {
		for _, text := range u.pins {
			r.enqueue(ctx, namespace, text, true, q)
		}
		for _, text := range u.names {
			r.enqueue(ctx, namespace, text, false, q)
		}
	}
	return refHandler{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q refQueue) {
			enqueue(ctx, e.Object.GetNamespace(), uses(e.Object), q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q refQueue) {
			before, after := uses(e.ObjectOld), uses(e.ObjectNew)
			if !sameSet(before.pins, after.pins) || !sameSet(before.names, after.names) {
				enqueue(ctx, e.ObjectNew.GetNamespace(), before, q)
				enqueue(ctx, e.ObjectNew.GetNamespace(), after, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q refQueue) {
			enqueue(ctx, e.Object.GetNamespace(), uses(e.Object), q)
		},
	}
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

const (
	// gatherPerOwner and gatherMost say how long to gather further events of a revision's users before its owners are
	// written: the longer, the more it has already. The first owner is written at once, so that garbage collection
	// always finds one; a thousand workloads that share a source make a few writes, not a thousand (rule 12).
	gatherPerOwner = 10 * time.Millisecond
	gatherMost     = 500 * time.Millisecond
)

// enqueue enqueues what a template uses. A revision may have vanished; a source that is not there, or not to be attached,
// is nothing to look after.
func (r *Revisions) enqueue(ctx context.Context, namespace, text string, pinned bool, q refQueue) {
	// An index holds a revision in the form of a source.
	named, err := pin.ParseSource(text)
	if err != nil || !r.Options.Enabled(named.Kind) {
		return
	}
	ref := revision.Ref{Kind: named.Kind, Namespace: namespace, Name: named.Name}
	meta := revision.Metadata(ref)
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(meta), meta)
	switch {
	case err == nil && kept(meta):
		q.AddAfter(ref, min(gatherMost, time.Duration(len(meta.OwnerReferences))*gatherPerOwner))
	case pinned:
		// Not in the cache yet: new, or gone. Either way it has no owner that we know of.
		q.Add(ref)
	}
}
