package view

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
)

// Edit is an object as it is, nil when it does not exist, and as it would be.
type Edit struct {
	GVK           schema.GroupVersionKind
	Before, After client.Object
}

// Edits are the sources and workloads that would be applied.
type Edits []Edit

// NewEdit returns the edit of an object: as the API server has it, nil when it has none, and as it would be. The kind is one that
// confrev handles (Installation.Handles).
func NewEdit(gvk schema.GroupVersionKind, before, after runtime.Object, installed Installation) (Edit, error) {
	e := Edit{GVK: gvk, After: installed.empty(gvk)}
	if before != nil {
		e.Before = installed.empty(gvk)
		if err := convert(before, e.Before); err != nil {
			return e, err
		}
	}
	if err := convert(after, e.After); err != nil {
		return e, err
	}
	if _, is := e.Source(); is && (e.Before == nil || !revision.SameContent(e.Before, e.After)) {
		// No revision is to be taken for a copy of what was read at this version.
		e.After.SetResourceVersion("preview")
	}
	return e, nil
}

// convert reads one form of an object into another.
func convert(from runtime.Object, into client.Object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(content, into)
}

// Source returns the source that an edit is of, if it is of one.
func (e *Edit) Source() (pin.Source, bool) {
	for _, kind := range pin.Kinds {
		if revision.GVK(kind) == e.GVK {
			return pin.Source{Kind: kind, Name: e.After.GetName()}, true
		}
	}
	return pin.Source{}, false
}

func (e Edits) namespaces() []string {
	names := map[string]bool{}
	for _, one := range e {
		names[one.After.GetNamespace()] = true
	}
	return slices.Sorted(maps.Keys(names))
}

func (e Edits) of(namespace string) []Edit {
	return slices.DeleteFunc(slices.Clone(e), func(one Edit) bool { return one.After.GetNamespace() != namespace })
}

// secrets reports whether Secrets matter in a namespace: some are edited.
func (e Edits) secrets(namespace string) bool {
	return slices.ContainsFunc(e.of(namespace), func(one Edit) bool { return one.GVK == revision.GVK(pin.Secret) })
}

// editOf returns the edit of an object; nil when there is none.
func (e Edits) editOf(gvk schema.GroupVersionKind, obj client.Object) *Edit {
	for i, one := range e {
		if one.GVK == gvk && one.After.GetName() == obj.GetName() && one.After.GetNamespace() == obj.GetNamespace() {
			return &e[i]
		}
	}
	return nil
}

// edited reports whether a source is among the edits.
func (e Edits) edited(namespace string, source pin.Source) bool {
	return e.editOf(revision.GVK(source.Kind), revision.Metadata(revision.Ref{Kind: source.Kind, Namespace: namespace, Name: source.Name})) != nil
}

// overlay shows a cluster as it would be with the edits. It writes nothing.
type overlay struct {
	client.Client
	edits Edits
}

// Get reads an object as it would be.
func (o *overlay) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(obj, clientgoscheme.Scheme)
	if err != nil {
		return err
	}
	named := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if one := o.edits.editOf(gvk, named); one != nil {
		return convert(one.After, obj)
	}
	return o.Client.Get(ctx, key, obj, options...)
}

// List lists objects as they would be.
func (o *overlay) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := o.Client.List(ctx, list, options...); err != nil {
		return err
	}
	gvk, err := apiutil.GVKForObject(list, clientgoscheme.Scheme)
	if err != nil {
		return err
	}
	gvk.Kind = gvk.Kind[:len(gvk.Kind)-len("List")]
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	wanted := client.ListOptions{}
	wanted.ApplyOptions(options)
	for _, one := range o.edits.of(wanted.Namespace) {
		if one.GVK != gvk {
			continue
		}
		item, err := o.as(list, one)
		if err != nil {
			return err
		}
		items = slices.DeleteFunc(items, func(other runtime.Object) bool {
			m, err := meta.Accessor(other)
			return err == nil && m.GetName() == one.After.GetName()
		})
		items = append(items, item)
	}
	return meta.SetList(list, items)
}

// as returns an edited object as an item of a list: its metadata, where the list is one of metadata.
func (o *overlay) as(list client.ObjectList, one Edit) (runtime.Object, error) {
	if _, is := list.(*metav1.PartialObjectMetadataList); !is {
		return one.After, nil
	}
	item := &metav1.PartialObjectMetadata{}
	return item, convert(one.After, item)
}
