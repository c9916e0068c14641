package reconcile

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/revision"
)

// keepAttached maintains a source whose name is unique for each deploy. The holders that use it own it, so that it is deleted with the last
// of them. If it asks for protection, it stays readable when a deploy tool deletes it earlier.
func (r *Revisions) keepAttached(ctx context.Context, obj *metav1.PartialObjectMetadata, ref revision.Ref) (time.Duration, error) {
	protected := slices.Contains(obj.Finalizers, keys.ProtectFinalizer)
	if !optin.Attachable(obj) {
		if !protected && !revision.Attached(obj) {
			return 0, nil
		}
		return 0, r.Store.Detach(ctx, obj, without(obj.Finalizers))
	}
	if !r.protects(obj) && protected {
		return 0, r.Store.SetFinalizers(ctx, obj, without(obj.Finalizers))
	}
	users, err := r.namers(ctx, ref)
	if err != nil {
		return 0, err
	}
	if obj.DeletionTimestamp != nil {
		if !protected {
			return 0, nil
		}
		return r.releaseFinalizer(ctx, obj, ref, users)
	}
	if users.empty() {
		return r.sweepAttached(ctx, obj, ref)
	}
	r.unused.Remove(obj.UID)
	attached, err := r.attached(ctx, ref, users)
	if err != nil || !attached {
		return 0, err
	}
	if r.protects(obj) && !protected {
		// The event of this write leads back here, for the owners.
		return 0, r.Store.SetFinalizers(ctx, obj, append(slices.Clone(obj.Finalizers), keys.ProtectFinalizer))
	}
	return 0, r.attach(ctx, obj, users)
}

// protects reports whether a source gets confrev's finalizer. It gets none where confrev's rights are deleted with the namespace: no one
// would remove the finalizer then, and the namespace would never be gone (rule 23).
func (r *Revisions) protects(obj *metav1.PartialObjectMetadata) bool {
	return optin.Protected(obj) && !r.Options.Namespaced()
}

// releaseFinalizer removes confrev's finalizer from a deleted source once a live look finds no users of it, or with its whole namespace, whatever uses it there.
// The namespace is looked up live: the cache may show the deletion of the source before that of its namespace, and users
// that have finalizers of their own would then be waited for.
func (r *Revisions) releaseFinalizer(ctx context.Context, obj *metav1.PartialObjectMetadata, ref revision.Ref, users users) (time.Duration, error) {
	ending, err := r.Options.Terminating(ctx, r.Live, ref.Namespace)
	if err != nil {
		return 0, err
	}
	if !ending && !users.empty() {
		// Their events lead back here. If one were missed, the finalizer would stay, and with it the namespace.
		return r.Grace, nil
	}
	if !ending {
		if used, err := r.usedInNamespace(ctx, ref.Namespace, names(ref)); err != nil || used {
			return r.Grace, err
		}
	}
	return 0, r.Store.SetFinalizers(ctx, obj, without(obj.Finalizers))
}

// unprotect removes confrev's finalizer from a source in a namespace that is being deleted. What uses the source is deleted too, and a
// finalizer would prevent the deletion of the namespace (rule 16).
func (r *Revisions) unprotect(ctx context.Context, ref revision.Ref) error {
	obj := revision.NewMetadata(ref.Kind)
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, obj)
	if err != nil || !slices.Contains(obj.Finalizers, keys.ProtectFinalizer) {
		return client.IgnoreNotFound(err)
	}
	return r.Store.SetFinalizers(ctx, obj, without(obj.Finalizers))
}

func without(finalizers []string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == keys.ProtectFinalizer })
}

// sweepAttached deletes a source that confrev attached and that nothing has used for as long as a revision is spared: a deploy tool that found it there
// may be about to name it again. Owners that a user added are not a reason to delete anything. A source without owners was never used by a workload:
// whatever its annotations say, something that confrev does not know may need it, such as an Ingress.
func (r *Revisions) sweepAttached(ctx context.Context, obj *metav1.PartialObjectMetadata, ref revision.Ref) (time.Duration, error) {
	if !revision.Attached(obj) || len(obj.OwnerReferences) == 0 {
		return 0, nil
	}
	since, known := r.unused.Get(obj.UID)
	if !known {
		since = r.Now()
		r.unused.Add(obj.UID, since)
	}
	if wait := since.(time.Time).Add(r.Store.Spares()).Sub(r.Now()); wait > 0 {
		return wait, nil
	}
	return r.sweep(ctx, obj, func(ctx context.Context) (bool, error) {
		return r.usedInNamespace(ctx, ref.Namespace, names(ref))
	})
}
