package controller

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// Snapshot is what one LIST of each kind showed of a namespace, or of all: workloads, holders, and the metadata of sources and
// revisions. It answers what the reconcilers ask their cache. What it does not have it asks the API server.
type Snapshot struct {
	client.Client
	objects map[schema.GroupVersionKind][]client.Object
	indexes map[schema.GroupVersionKind]map[string]client.IndexerFunc
	// byValue has the objects by index and value, made when it is first asked for.
	byValue map[string]map[string][]client.Object
}

// TakeSnapshot lists a namespace, or all when it is empty. Kinds that the API server does not serve are left out; what may not be
// listed is an error.
func TakeSnapshot(ctx context.Context, live client.Client, options Options, kinds []workload.Kind, namespace string) (*Snapshot, error) {
	s := &Snapshot{
		Client: live, objects: map[schema.GroupVersionKind][]client.Object{},
		indexes: map[schema.GroupVersionKind]map[string]client.IndexerFunc{}, byValue: map[string]map[string][]client.Object{},
	}
	for _, kind := range kinds {
		for _, i := range options.indexes(kind) {
			if s.indexes[i.gvk] == nil {
				s.indexes[i.gvk] = map[string]client.IndexerFunc{}
			}
			s.indexes[i.gvk][i.field] = i.fn
		}
		if err := s.take(ctx, kind.GVK, kind.NewList(), namespace); err != nil {
			return nil, err
		}
		if err := s.take(ctx, kind.Holder.GVK, kind.Holder.NewList(), namespace); err != nil {
			return nil, err
		}
	}
	for _, kind := range options.sourceKinds() {
		gvk := revision.GVK(kind)
		s.indexes[gvk] = map[string]client.IndexerFunc{revision.BySource: revision.IndexBySource(kind)}
		if err := s.take(ctx, gvk, revision.NewMetadataList(kind), namespace); err != nil {
			return nil, err
		}
	}
	if namespace != "" {
		return s, nil
	}
	// Else each workload would ask for its namespace.
	return s, s.take(ctx, newNamespace().GroupVersionKind(), namespaces(), "")
}

func namespaces() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	gvk := newNamespace().GroupVersionKind()
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return list
}

// take lists the objects of a kind, once.
func (s *Snapshot) take(ctx context.Context, gvk schema.GroupVersionKind, list client.ObjectList, namespace string) error {
	if _, taken := s.objects[gvk]; taken {
		return nil
	}
	err := s.Client.List(ctx, list, client.InNamespace(namespace))
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		s.objects[gvk] = []client.Object{}
		return nil
	}
	if err != nil {
		return err
	}
	objects, err := items(list)
	if err != nil {
		return err
	}
	for _, obj := range objects {
		// A list of metadata does not say on each item what it is.
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			m.SetGroupVersionKind(gvk)
		}
	}
	s.objects[gvk] = objects
	return nil
}

// Objects gives all objects of a kind. The caller does not change them.
func (s *Snapshot) Objects(gvk schema.GroupVersionKind) []client.Object { return s.objects[gvk] }

// Sources gives the metadata of the sources and revisions of a kind.
func (s *Snapshot) Sources(kind pin.Kind) []client.Object { return s.objects[revision.GVK(kind)] }

// Get reads an object of the snapshot, or a live one of a kind that it does not have.
func (s *Snapshot) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(obj, clientgoscheme.Scheme)
	if err != nil {
		return err
	}
	objects, taken := s.objects[gvk]
	if !taken {
		return s.Client.Get(ctx, key, obj, options...)
	}
	for _, found := range objects {
		if found.GetName() == key.Name && found.GetNamespace() == key.Namespace {
			reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(found.DeepCopyObject()).Elem())
			obj.GetObjectKind().SetGroupVersionKind(gvk)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: strings.ToLower(gvk.Kind)}, key.Name)
}

// List lists objects of the snapshot by namespace and one index, or live ones of a kind that it does not have.
func (s *Snapshot) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(list, clientgoscheme.Scheme)
	if err != nil {
		return err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	objects, taken := s.objects[gvk]
	if !taken {
		return s.Client.List(ctx, list, options...)
	}
	wanted := client.ListOptions{}
	wanted.ApplyOptions(options)
	if wanted.FieldSelector != nil && !wanted.FieldSelector.Empty() {
		for _, requirement := range wanted.FieldSelector.Requirements() {
			if objects, err = s.indexed(gvk, requirement.Field, requirement.Value); err != nil {
				return err
			}
		}
	}
	var found []runtime.Object
	for _, obj := range objects {
		if wanted.Namespace == "" || obj.GetNamespace() == wanted.Namespace {
			found = append(found, obj)
		}
	}
	return meta.SetList(list, found)
}

func (s *Snapshot) indexed(gvk schema.GroupVersionKind, field, value string) ([]client.Object, error) {
	of := s.indexes[gvk][field]
	if of == nil {
		return nil, fmt.Errorf("the snapshot has no index %s of %s", field, gvk)
	}
	name := gvk.String() + " " + field
	if s.byValue[name] == nil {
		s.byValue[name] = map[string][]client.Object{}
		for _, obj := range s.objects[gvk] {
			for _, v := range of(obj) {
				s.byValue[name][v] = append(s.byValue[name][v], obj)
			}
		}
	}
	return s.byValue[name][value], nil
}
