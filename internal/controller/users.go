package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// users are those that pin one revision.
type users struct {
	holders []user
	// workloads are those whose template pins it, and those of the holders, by UID.
	workloads map[types.UID]client.Object
	templates []user
}

// user is one holder or workload and its template's pins.
type user struct {
	obj  client.Object
	kind metav1.TypeMeta
	pins string
}

func (u users) empty() bool { return len(u.holders) == 0 && len(u.templates) == 0 }

// users finds who pins a revision, in the cache.
func (r *revisions) users(ctx context.Context, ref revision.Ref) (users, error) {
	found := users{workloads: map[types.UID]client.Object{}}
	for _, kind := range workload.Kinds() {
		templates, err := r.pinning(ctx, kind.New(), kind.NewList(), ref, func(o client.Object) string { return templatePins(kind, o) })
		if err != nil {
			return users{}, err
		}
		holder := kind.Holder()
		holders, err := r.pinning(ctx, holder.New(), holder.NewList(), ref, holder.PinsText)
		if err != nil {
			return users{}, err
		}
		found.templates = append(found.templates, templates...)
		found.holders = append(found.holders, holders...)
		for _, t := range templates {
			found.workloads[t.obj.GetUID()] = t.obj
		}
	}
	return found, nil
}

// pinning finds the objects of one kind whose templates pin a revision.
func (r *revisions) pinning(ctx context.Context, obj client.Object, into client.ObjectList, ref revision.Ref,
	pins func(client.Object) string,
) ([]user, error) {
	gvk, err := apiutil.GVKForObject(obj, r.client.Scheme())
	if err != nil {
		return nil, err
	}
	objects, err := list(ctx, r.client, into, ref.Namespace, byPin, ref.Text())
	if err != nil {
		return nil, fmt.Errorf("find the %ss that pin %s: %w", gvk.Kind, ref, err)
	}
	var found []user
	for _, o := range objects {
		if o.GetDeletionTimestamp() == nil {
			apiVersion, kind := gvk.ToAPIVersionAndKind()
			found = append(found, user{obj: o, kind: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}, pins: pins(o)})
		}
	}
	return found, nil
}

// owners are the holders and their workloads, and the workloads whose templates pin the revision, each once (rule 12).
// Without the workload, the garbage collector would take the revision along with its last known holder although a newer
// one pins it that confrev has not seen yet: in this moment, or all the time that confrev is down.
func (u users) owners() []revision.Owner {
	var owners []revision.Owner
	known := map[types.UID]bool{}
	add := func(o revision.Owner) {
		if !known[o.UID] {
			known[o.UID] = true
			owners = append(owners, o)
		}
	}
	for _, t := range u.templates {
		add(t.owner())
	}
	for _, h := range u.holders {
		add(h.owner())
		if c := metav1.GetControllerOf(h.obj); c != nil {
			add(revision.Owner{APIVersion: c.APIVersion, Kind: c.Kind, Name: c.Name, UID: c.UID})
		}
	}
	return owners
}

func (u user) owner() revision.Owner {
	return revision.Owner{APIVersion: u.kind.APIVersion, Kind: u.kind.Kind, Name: u.obj.GetName(), UID: u.obj.GetUID()}
}

// source gives the source that the users pin to a revision, and the highest number that they pin it with.
func (u users) source(ref revision.Ref) (source pin.Source, number int64, ok bool) {
	for _, user := range append(slices.Clone(u.templates), u.holders...) {
		pins, err := pin.Parse(user.pins)
		if err != nil {
			continue
		}
		for s, p := range pins {
			if s.Kind == ref.Kind && p.Revision == ref.Name && p.Number > number {
				source, number, ok = s, p.Number, true
			}
		}
	}
	return source, number, ok
}

// alive gives those of the users that the API server still has, and adds the workloads of the holders.
func (r *revisions) alive(ctx context.Context, all users) (users, error) {
	var err error
	alive := users{workloads: maps.Clone(all.workloads)}
	if alive.templates, err = r.living(ctx, all.templates); err != nil {
		return users{}, err
	}
	if alive.holders, err = r.living(ctx, all.holders); err != nil {
		return users{}, err
	}
	for _, h := range alive.holders {
		owner := metav1.GetControllerOf(h.obj)
		if owner == nil || alive.workloads[owner.UID] != nil {
			continue
		}
		about := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: owner.APIVersion, Kind: owner.Kind}}
		about.Namespace, about.Name, about.UID = h.obj.GetNamespace(), owner.Name, owner.UID
		alive.workloads[owner.UID] = about
	}
	return alive, nil
}

func (r *revisions) living(ctx context.Context, all []user) ([]user, error) {
	var living []user
	for _, u := range all {
		meta := &metav1.PartialObjectMetadata{TypeMeta: u.kind}
		err := r.live.Get(ctx, client.ObjectKeyFromObject(u.obj), meta)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if meta.UID == u.obj.GetUID() && meta.DeletionTimestamp == nil {
			living = append(living, u)
		}
	}
	return living, nil
}

// page is how many objects a live look reads at a time.
const page = 500

// inUse looks at the API server whether any template or holder of the namespace names a revision (rule 13).
func (r *revisions) inUse(ctx context.Context, ref revision.Ref) (bool, error) {
	for _, kind := range workload.Kinds() {
		used, err := r.names(ctx, kind.NewList(), ref, func(o client.Object) string { return templatePins(kind, o) })
		if used || err != nil {
			return used, err
		}
		holder := kind.Holder()
		used, err = r.names(ctx, holder.NewList(), ref, holder.PinsText)
		if used || err != nil {
			return used, err
		}
	}
	return false, nil
}

func (r *revisions) names(ctx context.Context, into client.ObjectList, ref revision.Ref, pins func(client.Object) string) (bool, error) {
	for {
		err := r.live.List(ctx, into, client.InNamespace(ref.Namespace), client.Limit(page), client.Continue(into.GetContinue()))
		if err != nil {
			return false, fmt.Errorf("look for users of %s: %w", ref, err)
		}
		objects, err := items(into)
		if err != nil {
			return false, err
		}
		for _, o := range objects {
			if slices.Contains(pinned(pins(o)), ref.Text()) {
				return true, nil
			}
		}
		if into.GetContinue() == "" {
			return false, nil
		}
	}
}
