package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/workload"
)

// users are the workloads and holders whose templates pin a revision or, for an attached source, name it.
type users struct {
	holders, templates []user
}

// user is one holder or workload and its template's pins.
type user struct {
	obj  client.Object
	kind metav1.TypeMeta
	pins string
}

func (u users) empty() bool { return len(u.holders) == 0 && len(u.templates) == 0 }

// namers returns the users whose templates name a source, from the cache.
func (r *Revisions) namers(ctx context.Context, ref revision.Ref) (users, error) {
	found, err := r.usersIndexed(ctx, ref, index.BySource, index.ByReference, false)
	if err != nil {
		return users{}, err
	}
	// The index also has sources that the template does not refer to.
	found.templates = slices.DeleteFunc(found.templates, func(u user) bool { return !r.refers(u, ref) })
	return found, nil
}

func (r *Revisions) refers(u user, ref revision.Ref) bool {
	kind, known := r.Kinds.Of(metav1.OwnerReference{APIVersion: u.kind.APIVersion, Kind: u.kind.Kind})
	if !known {
		return false
	}
	uses, err := kind.Uses(u.obj)
	return err == nil && slices.ContainsFunc(uses, func(use podspec.Use) bool { return use.Source == ref.Source() })
}

// usersIndexed returns the workloads and the holders that the given indexes have under a source or revision: all, or if some are enough, at least so
// many of each kind.
func (r *Revisions) usersIndexed(ctx context.Context, ref revision.Ref, ofWorkloads, ofHolders string, some bool) (users, error) {
	var found users
	for _, kind := range r.Kinds.All() {
		templates, err := r.indexed(ctx, kind.GVK, kind.NewList, ref, ofWorkloads, some, kind.PinsText)
		if err != nil {
			return users{}, err
		}
		found.templates = append(found.templates, templates...)
	}
	for _, holder := range r.Kinds.Holders() {
		pins := func(obj client.Object) string { return holder.Facts(obj).Pins }
		holders, err := r.indexed(ctx, holder.GVK, holder.NewList, ref, ofHolders, some, pins)
		if err != nil {
			return users{}, err
		}
		found.holders = append(found.holders, holders...)
	}
	return found, nil
}

// indexed finds the objects of one kind that an index has under a source or revision.
func (r *Revisions) indexed(ctx context.Context, gvk schema.GroupVersionKind, list func() client.ObjectList, ref revision.Ref, field string, some bool,
	pins func(client.Object) string,
) ([]user, error) {
	var limit int64
	if some {
		limit = enough
	}
	objects, err := index.List(ctx, r.Client, list(), ref.Namespace, field, ref.Text(), client.Limit(limit))
	if err != nil {
		return nil, fmt.Errorf("find the %ss that use %s: %w", gvk.Kind, ref, err)
	}
	var found []user
	for _, o := range objects {
		if o.GetDeletionTimestamp() == nil {
			apiVersion, kind := gvk.ToAPIVersionAndKind()
			found = append(found, user{obj: o, kind: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}, pins: pins(o)})
		}
	}
	if some && len(objects) >= enough && len(found) < enough {
		// Others may be in place of those that are being deleted.
		return r.indexed(ctx, gvk, list, ref, field, false, pins)
	}
	return found, nil
}

// attached reports whether any user of a source asks for it to be attached.
func (r *Revisions) attached(ctx context.Context, ref revision.Ref, found users) (bool, error) {
	owners := slices.Clone(found.templates)
	for _, h := range found.holders {
		if c := metav1.GetControllerOf(h.obj); c != nil && !slices.ContainsFunc(owners, func(u user) bool { return u.obj.GetUID() == c.UID }) {
			_, obj, err := r.workload(ctx, r.Client, ref.Namespace, *c)
			if err != nil {
				return false, err
			}
			if obj != nil {
				owners = append(owners, user{obj: obj, kind: metav1.TypeMeta{APIVersion: c.APIVersion, Kind: c.Kind}})
			}
		}
	}
	for _, u := range owners {
		kind, _ := r.Kinds.Of(metav1.OwnerReference{APIVersion: u.kind.APIVersion, Kind: u.kind.Kind})
		if attaches, err := r.attaches(ctx, kind, u.obj, ref); attaches || err != nil {
			return attaches, err
		}
	}
	return false, nil
}

// workload returns the workload that an owner reference names, and its kind; nil if it does not exist, or is another one of that name.
func (r *Revisions) workload(ctx context.Context, reader client.Reader, namespace string, owner metav1.OwnerReference) (workload.Kind, client.Object, error) {
	kind, known := r.Kinds.Of(owner)
	if !known {
		return kind, nil, nil
	}
	obj := kind.New()
	err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: owner.Name}, obj)
	if err != nil || obj.GetUID() != owner.UID {
		return kind, nil, client.IgnoreNotFound(err)
	}
	return kind, obj, nil
}

func (r *Revisions) attaches(ctx context.Context, kind workload.Kind, obj client.Object, ref revision.Ref) (bool, error) {
	if named, name, refers := kind.WorkloadRef(obj); refers {
		i := slices.IndexFunc(r.Kinds.All(), func(k workload.Kind) bool { return k.GVK.GroupKind() == named })
		if i < 0 {
			return false, nil
		}
		kind = r.Kinds.All()[i]
		obj = kind.New()
		if err := r.Client.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: name}, obj); err != nil {
			return false, client.IgnoreNotFound(err)
		}
	}
	asked, _, err := rollout.Config(ctx, r.Client, r.Kinds, r.Options, kind, obj)
	if err != nil || !asked.Mode.Attaches {
		return false, err
	}
	use := []podspec.Use{{Source: ref.Source(), All: true}}
	selection := asked.Track.Select(use, false, func(pin.Source) optin.Traits { return optin.Traits{} })
	return len(selection.Uses) > 0, nil
}

// owners returns the holders and their workloads, and the workloads whose templates pin the revision, each once (rule 12).
// If the workload were not an owner, the garbage collector would delete the revision with its last known holder, although a newer holder
// may pin it that confrev has not seen yet: for a moment, or for as long as confrev is down.
//
// A holder's controller may be of a kind that confrev does not know, such as an Experiment of Argo Rollouts. It does not roll out the revision
// again, and confrev may have no right to read it, so only the holder becomes an owner.
func (r *Revisions) owners(u users) []revision.Owner {
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
		if c := metav1.GetControllerOf(h.obj); c != nil && r.Kinds.IsWorkload(*c) {
			add(revision.Owner{APIVersion: c.APIVersion, Kind: c.Kind, Name: c.Name, UID: c.UID})
		}
		add(h.owner())
	}
	return owners
}

func (u user) owner() revision.Owner {
	return revision.Owner{APIVersion: u.kind.APIVersion, Kind: u.kind.Kind, Name: u.obj.GetName(), UID: u.obj.GetUID()}
}

// objects returns the workloads of templates and of holders, each once, for a notice about them.
func (u users) objects() []notice.Object {
	workloads := map[types.UID]notice.Object{}
	for _, t := range u.templates {
		workloads[t.obj.GetUID()] = t.obj
	}
	for _, h := range u.holders {
		owner := metav1.GetControllerOf(h.obj)
		if owner == nil || workloads[owner.UID] != nil {
			continue
		}
		about := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: owner.APIVersion, Kind: owner.Kind}}
		about.Namespace, about.Name, about.UID = h.obj.GetNamespace(), owner.Name, owner.UID
		workloads[owner.UID] = about
	}
	return slices.Collect(maps.Values(workloads))
}

// source returns the source that the users pin to a revision, and the highest number that they pin it with.
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

// alive returns the users from the first one on that the API server still has. One is enough reason to keep a revision, and there may be
// thousands, so the others are not looked up.
func (r *Revisions) alive(ctx context.Context, all users) (users, error) {
	first, err := r.firstAlive(ctx, all.templates)
	if err != nil {
		return users{}, err
	}
	if all.templates = all.templates[first:]; len(all.templates) > 0 {
		return all, nil
	}
	first, err = r.firstAlive(ctx, all.holders)
	return users{holders: all.holders[first:]}, err
}

// firstAlive returns the index of the first user that the API server still has, or the number of users if it has none of them.
func (r *Revisions) firstAlive(ctx context.Context, all []user) (int, error) {
	for i, u := range all {
		live := &metav1.PartialObjectMetadata{TypeMeta: u.kind}
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(u.obj), live)
		if client.IgnoreNotFound(err) != nil {
			return 0, err
		}
		if err == nil && live.UID == u.obj.GetUID() && live.DeletionTimestamp == nil {
			return i, nil
		}
	}
	return len(all), nil
}

// page is how many objects a live search reads at a time.
const page = 500

// uses reports whether a workload or holder, as the API server has it, uses the object that is about to be deleted.
type uses func(facts workload.Facts) bool

// needs returns the uses of a revision: by a pin, or by its name. names returns the uses of an attached source.
func needs(ref revision.Ref) uses {
	return func(facts workload.Facts) bool {
		return slices.Contains(index.Pins(facts.Pins), ref.Text()) || slices.Contains(facts.References, ref.Text())
	}
}

func names(ref revision.Ref) uses {
	return func(facts workload.Facts) bool { return slices.Contains(facts.References, ref.Text()) }
}

// inUse asks the API server whether any workload or holder uses an object (rule 13). If workloads own it, only they and their holders can, and what is
// of a kind that confrev leaves out for now: it pinned nothing else to it. Otherwise the whole namespace is searched.
func (r *Revisions) inUse(ctx context.Context, obj *metav1.PartialObjectMetadata, uses uses) (bool, error) {
	if len(obj.OwnerReferences) == 0 || r.Store.Anchored(obj) {
		return r.usedInNamespace(ctx, obj.Namespace, uses)
	}
	var holders []below
	for _, reference := range obj.OwnerReferences {
		kind, owner, err := r.workload(ctx, r.Live, obj.Namespace, reference)
		if err != nil {
			return false, err
		}
		if owner == nil {
			continue
		}
		if uses(kind.Facts(owner)) {
			return true, nil
		}
		holders = addBelow(holders, below{kind.Holder, kind.Selector(owner)})
	}
	for _, b := range holders {
		if used, err := r.usedAmong(ctx, b.kind.NewList(), obj.Namespace, b.selector, b.kind.Facts, uses); used || err != nil {
			return used, err
		}
	}
	return r.usedUnseen(ctx, obj.Namespace, uses)
}

type below struct {
	kind     workload.HolderKind
	selector labels.Selector
}

// addBelow combines searches for holders of the same kind into one search of the namespace. It costs the API server no more than a search by
// selector, for which it reads all of them too.
func addBelow(all []below, b below) []below {
	if i := slices.IndexFunc(all, func(other below) bool { return other.kind == b.kind }); i >= 0 {
		all[i].selector = labels.Everything()
		return all
	}
	return append(all, b)
}

// usedInNamespace searches a whole namespace, also for objects of kinds that confrev leaves out for now. With the anchor, no owner tells of a user.
func (r *Revisions) usedInNamespace(ctx context.Context, namespace string, uses uses) (bool, error) {
	known := r.Kinds.Known()
	return r.usedByAny(ctx, namespace, known, workload.HoldersOf(known), uses)
}

// usedUnseen searches a namespace for objects of the kinds that confrev leaves out for now: caches show nothing of them, so they became no owners.
func (r *Revisions) usedUnseen(ctx context.Context, namespace string, uses uses) (bool, error) {
	seen, seenHolders := r.Kinds.All(), r.Kinds.Holders()
	kinds := slices.DeleteFunc(slices.Clone(r.Kinds.Known()), func(kind workload.Kind) bool { return slices.Contains(seen, kind) })
	holders := slices.DeleteFunc(workload.HoldersOf(kinds), func(holder workload.HolderKind) bool { return slices.Contains(seenHolders, holder) })
	return r.usedByAny(ctx, namespace, kinds, holders, uses)
}

func (r *Revisions) usedByAny(ctx context.Context, namespace string, kinds []workload.Kind, holders []workload.HolderKind, uses uses) (bool, error) {
	for _, kind := range kinds {
		if used, err := r.usedAmong(ctx, kind.NewList(), namespace, labels.Everything(), kind.Facts, uses); used || err != nil {
			return used, err
		}
	}
	for _, holder := range holders {
		if used, err := r.usedAmong(ctx, holder.NewList(), namespace, labels.Everything(), holder.Facts, uses); used || err != nil {
			return used, err
		}
	}
	return false, nil
}

// usedAmong searches the objects of one kind. What confrev may not list counts as a user.
func (r *Revisions) usedAmong(ctx context.Context, into client.ObjectList, namespace string, selector labels.Selector,
	facts func(client.Object) workload.Facts, uses uses,
) (bool, error) {
	for {
		err := r.Live.List(ctx, into, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector},
			client.Limit(page), client.Continue(into.GetContinue()))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			// The kind is no longer served, so there are no objects of it.
			return false, nil
		}
		if apierrors.IsForbidden(err) {
			log.FromContext(ctx).V(1).Info("what confrev may not list may use it, so it stays", "because", err.Error())
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("look live for users: %w", err)
		}
		objects, err := index.Items(into)
		if err != nil {
			return false, err
		}
		for _, o := range objects {
			if uses(facts(o)) {
				return true, nil
			}
		}
		if into.GetContinue() == "" {
			return false, nil
		}
	}
}
