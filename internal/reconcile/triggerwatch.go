package reconcile

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/rollout"
)

// followTriggers makes changes to objects of other kinds reach the workloads that name them.
func (r *Workloads) followTriggers(kinds []rollout.FollowedKind) error {
	var errs []error
	for _, f := range kinds {
		errs = append(errs, r.followTrigger(f.GVK, f.Kind))
	}
	return errors.Join(errs...)
}

func (r *Workloads) followTrigger(gvk schema.GroupVersionKind, kind pin.Kind) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.followed[gvk] {
		return nil
	}
	obj := metadata.New(gvk)
	err := r.controller.Watch(source.Kind(r.cache, obj, handler.TypedEnqueueRequestsFromMapFunc(
		func(ctx context.Context, changed *metav1.PartialObjectMetadata) []reconcile.Request {
			return r.indexed(ctx, changed.Namespace, pin.Source{Kind: kind, Name: changed.Name}.String())
		})))
	if err != nil {
		return fmt.Errorf("follow %s: %w", gvk, err)
	}
	r.followed[gvk] = true
	return nil
}
