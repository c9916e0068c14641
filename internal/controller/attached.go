package controller

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/revision"
)

// keepAttached keeps a source whose name is unique per deploy: the holders that use it own it, so that it goes with the
// last of them; and if it asks for protection, it stays readable when a deploy tool deletes it earlier.
func (r *revisions) keepAttached(ctx context.Context, obj *metav1.PartialObjectMetadata, ref revision.Ref) (time.Duration, error) {
	protected := slices.Contains(obj.Finalizers, keys.ProtectFinalizer)
	if !optin.Attachable(obj) {
		if !protected && !revision.Attached(obj) {
			return 0, nil
		}
		return 0, r.store.Detach(ctx, obj, without(obj.Finalizers))
	}
	if !optin.Protected(obj) && protected {
		return 0, r.store.SetFinalizers(ctx, obj, without(obj.Finalizers))
	}
	users, err := r.namers(ctx, ref)
	if err != nil {
		return 0, err
	}
	if obj.DeletionTimestamp != nil {
		if !protected || !users.empty() {
			return 0, nil
		}
		return r.letGo(ctx, obj, ref)
	}
	if users.empty() {
		return r.sweepAttached(ctx, obj, ref)
	}
	r.unused.Remove(obj.UID)
	attached, err := r.attached(ctx, ref, users)
	if err != nil || !attached {
		return 0, err
	}
	if optin.Protected(obj) && !protected {
		// Its event brings us back for the owners.
		return 0, r.store.SetFinalizers(ctx, obj, append(slices.Clone(obj.Finalizers), keys.ProtectFinalizer))
	}
	return 0, r.attach(ctx, obj, users)
}

// letGo lets a deleted source go once a live look finds nobody that uses it.
func (r *revisions) letGo(ctx context.Context, obj *metav1.PartialObjectMetadata, ref revision.Ref) (time.Duration, error) {
	used, err := r.usedInNamespace(ctx, ref.Namespace, names(ref))
	if err != nil || used {
		return r.options.Grace, err
	}
	return 0, r.store.SetFinalizers(ctx, obj, without(obj.Finalizers))
}

func without(finalizers []string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == keys.ProtectFinalizer })
}

// unusedFor is how long an attached source must be without users: a deploy tool may be about to name it again.
const unusedFor = revision.PinWindow

// sweepAttached deletes a source that confrev attached and that nobody uses any more. Owners that a user gave it are no
// reason to delete anything.
func (r *revisions) sweepAttached(ctx context.Context, obj *metav1.PartialObjectMetadata, ref revision.Ref) (time.Duration, error) {
	if !revision.Attached(obj) {
		return 0, nil
	}
	since, known := r.unused.Get(obj.UID)
	if !known {
		since = r.now()
		r.unused.Add(obj.UID, since)
	}
	if wait := since.(time.Time).Add(unusedFor).Sub(r.now()); wait > 0 {
		return wait, nil
	}
	return r.sweep(ctx, obj, r.options.Grace, names(ref))
}
