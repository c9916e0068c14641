// Package overlay shows a cluster as it would be after some edits that no one has made.
package overlay

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

// NewEdit returns the edit of an object: as the API server has it, nil when it has none, and as it would be. empty returns an object of the
// kind, to read into.
func NewEdit(gvk schema.GroupVersionKind, before, after runtime.Object, empty func() client.Object) (Edit, error) {
	e := Edit{GVK: gvk, After: empty()}
	if before != nil {
		e.Before = empty()
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
	i := slices.IndexFunc(pin.Kinds, func(kind pin.Kind) bool { return revision.GVK(kind).GroupKind() == e.GVK.GroupKind() })
	if i < 0 {
		return pin.Source{}, false
	}
	return pin.Source{Kind: pin.Kinds[i], Name: e.After.GetName()}, true
}

// Namespaces lists the namespaces of the edits, sorted.
func (e Edits) Namespaces() []string {
	names := map[string]bool{}
	for _, one := range e {
		names[one.After.GetNamespace()] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// In returns the edits of a namespace.
func (e Edits) In(namespace string) []Edit {
	return slices.DeleteFunc(slices.Clone(e), func(one Edit) bool { return one.After.GetNamespace() != namespace })
}

// Find returns the edit of an object; nil when there is none.
func (e Edits) Find(gvk schema.GroupVersionKind, obj client.Object) *Edit {
	for i, one := range e {
		if one.GVK == gvk && one.After.GetName() == obj.GetName() && one.After.GetNamespace() == obj.GetNamespace() {
			return &e[i]
		}
	}
	return nil
}

// Changes reports whether a source is among the edits.
func (e Edits) Changes(namespace string, source pin.Source) bool {
	return e.Find(revision.GVK(source.Kind), revision.Metadata(revision.Ref{Kind: source.Kind, Namespace: namespace, Name: source.Name})) != nil
}

// New returns a client that shows a cluster as it would be with the edits. What it is asked to write goes to the cluster as it is.
func New(live client.Client, edits Edits) client.Client { return &overlaid{Client: live, edits: edits} }

type overlaid struct {
	client.Client
	edits Edits
}

func (o *overlaid) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(obj, clientgoscheme.Scheme)
	if err != nil {
		return err
	}
	named := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if one := o.edits.Find(gvk, named); one != nil {
		return convert(one.After, obj)
	}
	return o.Client.Get(ctx, key, obj, options...)
}

func (o *overlaid) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
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
	for _, one := range o.edits.In(wanted.Namespace) {
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
func (o *overlaid) as(list client.ObjectList, one Edit) (runtime.Object, error) {
	if _, is := list.(*metav1.PartialObjectMetadataList); !is {
		return one.After, nil
	}
	item := &metav1.PartialObjectMetadata{}
	return item, convert(one.After, item)
}
