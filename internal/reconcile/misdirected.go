package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/workload"
)

// misdirected returns a notice if a workload that opted in has its template in a kind of object that confrev does not handle, or if it has
// settings that the object with its template does not have: these have no effect.
func (r *Workloads) misdirected(ctx context.Context, obj client.Object, named schema.GroupKind, name string) ([]notice.Notice, error) {
	asked, _, err := rollout.Config(ctx, r.Client, r.Kinds, r.Options, r.Kind, obj)
	if err != nil {
		return nil, err
	}
	handled := slices.IndexFunc(r.Kinds.All(), func(k workload.Kind) bool { return k.GVK.GroupKind() == named })
	if handled >= 0 {
		return r.withoutEffect(ctx, obj, r.Kinds.All()[handled], name)
	}
	if !asked.Track.Enabled() {
		return nil, nil
	}
	return []notice.Notice{{Reason: notice.NoPodTemplate, Text: fmt.Sprintf(
		"its pod template is in %s %s, which is not a kind of workload that confrev handles", named, name)}}, nil
}

// withoutEffect returns a notice if an object has settings, and the object whose template it uses has others.
func (r *Workloads) withoutEffect(ctx context.Context, obj client.Object, kind workload.Kind, name string) ([]notice.Notice, error) {
	lender := kind.New()
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}, lender)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	settings := optin.Settings(obj.GetAnnotations(), obj.GetLabels())
	maps.DeleteFunc(settings, func(key, value string) bool {
		return lender.GetAnnotations()[key] == value || lender.GetLabels()[key] == value
	})
	if len(settings) == 0 {
		return nil, nil
	}
	return []notice.Notice{notice.Warning(notice.UnknownAnnotation, pin.Source{}, "%s has no effect here: the pod template is that of %s/%s, so write it there",
		slices.Min(slices.Collect(maps.Keys(settings))), kind.Resource(), name)}, nil
}
