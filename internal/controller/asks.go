package controller

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/workload"
)

// asks reads what a workload asks for, in its own words and those of its namespace and of the workloads that refer to it.
func asks(ctx context.Context, reader client.Reader, kinds *workload.Kinds, o Options, kind workload.Kind, obj client.Object,
) (asked optin.Config, referring []client.Object, err error) {
	if referring, err = index.Referring(ctx, reader, kinds, kind, obj); err != nil {
		return optin.Config{}, nil, err
	}
	namespace := index.Namespace()
	err = reader.Get(ctx, client.ObjectKey{Name: obj.GetNamespace()}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return optin.Config{}, nil, err
	}
	return kind.Config(obj, referring, namespace, o.defaults()), referring, nil
}

// leftAlone tells whether nothing is to be done in a namespace: it is excluded, or it is being deleted, so that the API
// server refuses revisions and events in it.
func (o Options) leftAlone(ctx context.Context, reader client.Reader, name string) (bool, error) {
	if o.excluded(name) {
		return true, nil
	}
	return terminating(ctx, reader, name)
}

// terminating reports whether a namespace is being deleted.
func terminating(ctx context.Context, reader client.Reader, name string) (bool, error) {
	namespace := index.Namespace()
	err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
	return err == nil && namespace.DeletionTimestamp != nil, client.IgnoreNotFound(err)
}

func (o Options) defaults() optin.Defaults {
	return optin.Defaults{Settle: o.Settle, Injection: o.Injection, Compat: o.Compat}
}
