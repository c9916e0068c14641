package rollout

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/workload"
)

// Config reads what a workload asks for, in its own words and those of its namespace and of the workloads that refer to it.
func Config(ctx context.Context, reader client.Reader, kinds *workload.Kinds, o Options, kind workload.Kind, obj client.Object,
) (asked optin.Config, referring []client.Object, err error) {
	if referring, err = index.Referring(ctx, reader, kinds, kind, obj); err != nil {
		return optin.Config{}, nil, err
	}
	namespace := index.Namespace()
	err = reader.Get(ctx, client.ObjectKey{Name: obj.GetNamespace()}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return optin.Config{}, nil, err
	}
	return kind.Config(obj, referring, namespace, o.Defaults()), referring, nil
}

// LeftAlone reports whether nothing is to be done in a namespace: it is excluded, or it is being deleted, so that the API
// server refuses revisions and events in it.
func (o Options) LeftAlone(ctx context.Context, reader client.Reader, name string) (bool, error) {
	if o.Excluded(name) {
		return true, nil
	}
	return Terminating(ctx, reader, name)
}

// Terminating reports whether a namespace is being deleted.
func Terminating(ctx context.Context, reader client.Reader, name string) (bool, error) {
	namespace := index.Namespace()
	err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
	return err == nil && namespace.DeletionTimestamp != nil, client.IgnoreNotFound(err)
}

// Defaults are the settings of workloads that say nothing else.
func (o Options) Defaults() optin.Defaults {
	return optin.Defaults{Settle: o.Settle, Injection: o.Injection, Compat: o.Compat}
}

// Misdirected says so when a workload that opted in has its template in a kind of object that confrev does not handle.
func (r *Engine) Misdirected(ctx context.Context, obj client.Object, named schema.GroupKind, name string) ([]notice.Notice, error) {
	asked, _, err := Config(ctx, r.Client, r.Kinds, r.Options, r.Kind, obj)
	handled := slices.ContainsFunc(r.Kinds.All(), func(k workload.Kind) bool { return k.GVK.GroupKind() == named })
	if err != nil || handled || !asked.Track.Enabled() {
		return nil, err
	}
	return []notice.Notice{{Reason: notice.NoPodTemplate, Text: fmt.Sprintf(
		"its pod template is in %s %s, which is not a kind of workload that confrev handles", named, name)}}, nil
}
