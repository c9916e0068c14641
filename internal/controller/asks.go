package controller

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/workload"
)

// read reads what a workload asks for.
func (o Options) read(kind workload.Kind, obj client.Object, referring []client.Object, namespace client.Object) optin.Config {
	var others, labels []map[string]string
	for _, other := range referring {
		others, labels = append(others, other.GetAnnotations()), append(labels, other.GetLabels())
	}
	written := optin.Metadata{Annotations: optin.Merge(obj.GetAnnotations(), others...),
		Labels:          optin.Merge(obj.GetLabels(), labels...),
		NamespaceLabels: namespace.GetLabels(), NamespaceAnnotations: namespace.GetAnnotations()}
	if template, err := kind.Template(obj); err == nil {
		written.TemplateAnnotations = template.Annotations
	}
	return optin.Read(written, optin.Defaults{Settle: o.Settle, Injection: o.Injection, Compat: o.Compat})
}

// asks reads what a workload asks for, in its own words and those of its namespace and of the workloads that refer to it.
func asks(ctx context.Context, reader client.Reader, kinds *workload.Kinds, o Options, kind workload.Kind, obj client.Object,
) (asked optin.Config, referring []client.Object, err error) {
	if referring, err = referringTo(ctx, reader, kinds, kind, obj); err != nil {
		return optin.Config{}, nil, err
	}
	namespace := newNamespace()
	err = reader.Get(ctx, client.ObjectKey{Name: obj.GetNamespace()}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return optin.Config{}, nil, err
	}
	return o.read(kind, obj, referring, namespace), referring, nil
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
	namespace := newNamespace()
	err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
	return err == nil && namespace.DeletionTimestamp != nil, client.IgnoreNotFound(err)
}

// newNamespace makes the empty metadata of a namespace to read into.
func newNamespace() *metav1.PartialObjectMetadata {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace
}

// referringTo gives the workloads that have their template in this one.
func referringTo(ctx context.Context, reader client.Reader, kinds *workload.Kinds, kind workload.Kind, obj client.Object) ([]client.Object, error) {
	var all []client.Object
	for _, other := range kinds.Referring() {
		found, err := list(ctx, reader, other.NewList(), obj.GetNamespace(), byReferred, referredKey(kind.GVK.GroupKind(), obj.GetName()))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	// In the order of the cache, two that disagree would win by turns.
	slices.SortFunc(all, func(a, b client.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all, nil
}
