// Package snapshot is the content of a namespace, or of a whole cluster, at one moment, and as it changes from then on. It
// answers what the controller asks its caches, so that the plugin decides with the same code. It decides nothing itself, and
// writes nothing.
package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// Snapshot is the result of one LIST of each kind in a namespace, or in all: workloads, holders, and the metadata of sources,
// revisions and namespaces; pods too, if they are requested. It answers what the reconcilers ask their cache, and asks the API
// server for what it does not have.
type Snapshot struct {
	client.Client
	// namespace is empty for all namespaces.
	namespace string
	objects   map[schema.GroupVersionKind][]client.Object
	// listings are what was asked for, with the resourceVersion from which on to watch.
	listings []*listing
	indexes  map[schema.GroupVersionKind]map[string]client.IndexerFunc
	// byValue has the objects by index and value, built when it is first needed.
	byValue map[schema.GroupVersionKind]map[string]map[string][]client.Object
	// refused has, by kind, why the user may not list it.
	refused map[schema.GroupVersionKind]error
}

// listing is one LIST.
type listing struct {
	gvk     schema.GroupVersionKind
	list    client.ObjectList
	options []client.ListOption
	err     error
}

// ByName indexes all kinds by namespace and name.
const ByName = "confrev.name"

func fullName(obj client.Object) []string { return []string{client.ObjectKeyFromObject(obj).String()} }

// Take lists a namespace, or all if it is empty. It leaves out kinds that the API server does not serve, and those that the user
// may not list (see Refused).
func Take(ctx context.Context, live client.Client, kinds []workload.Kind, sources []pin.Kind, defaults optin.Defaults, namespace string) (*Snapshot, error) {
	s := &Snapshot{
		Client: live, namespace: namespace, objects: map[schema.GroupVersionKind][]client.Object{},
		indexes: map[schema.GroupVersionKind]map[string]client.IndexerFunc{},
		byValue: map[schema.GroupVersionKind]map[string]map[string][]client.Object{},
		refused: map[schema.GroupVersionKind]error{},
	}
	for _, kind := range kinds {
		s.want(kind.GVK, kind.NewList())
		s.want(kind.Holder.GVK, kind.Holder.NewList())
		for _, i := range index.Of(kind, defaults) {
			s.indexes[i.GVK][i.Field] = i.Func
		}
	}
	for _, kind := range sources {
		s.want(revision.GVK(kind), revision.NewMetadataList(kind))
		s.indexes[revision.GVK(kind)][revision.BySource] = revision.IndexBySource(kind)
	}
	if namespace == "" {
		// Else each workload would ask for its namespace.
		s.want(index.Namespace().GroupVersionKind(), metadata.NewList(index.Namespace().GroupVersionKind()))
		return s, s.take(ctx, s.listings...)
	}
	return s, errors.Join(s.take(ctx, s.listings...), s.takeNamespace(ctx))
}

// Pod is the kind of pods.
var Pod = corev1.SchemeGroupVersion.WithKind("Pod")

// TakePods adds the metadata of the pods that have not ended. Their pins are annotations.
func (s *Snapshot) TakePods(ctx context.Context) error {
	running := fields.AndSelectors(fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)))
	s.want(Pod, metadata.NewList(Pod), client.MatchingFieldsSelector{Selector: running})
	s.indexes[Pod][index.ByController] = index.ControllerUID
	return s.take(ctx, s.listings[len(s.listings)-1])
}

// want notes what to list, once.
func (s *Snapshot) want(gvk schema.GroupVersionKind, list client.ObjectList, options ...client.ListOption) {
	if s.indexes[gvk] != nil {
		return
	}
	s.indexes[gvk] = map[string]client.IndexerFunc{ByName: fullName}
	s.listings = append(s.listings, &listing{gvk: gvk, list: list, options: append(options, client.InNamespace(s.namespace))})
}

// take runs all LISTs at once.
func (s *Snapshot) take(ctx context.Context, listings ...*listing) error {
	var group sync.WaitGroup
	for _, l := range listings {
		group.Go(func() { l.err = s.Client.List(ctx, l.list, l.options...) })
	}
	group.Wait()
	for _, l := range listings {
		objects, err := index.Items(l.list)
		if err = errors.Join(s.expected(l.gvk, l.err), err); err != nil {
			return err
		}
		for _, obj := range objects {
			identify(obj, l.gvk)
		}
		s.objects[l.gvk] = objects
	}
	return nil
}

// expected notes a refusal, and returns other errors except those of kinds that are not served.
func (s *Snapshot) expected(gvk schema.GroupVersionKind, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		s.refused[gvk] = err
		return nil
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return nil
	}
	return err
}

// identify sets the kind of an item, which a list of metadata leaves out.
func identify(obj client.Object, gvk schema.GroupVersionKind) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		m.SetGroupVersionKind(gvk)
	}
}

// takeNamespace reads the metadata of the one namespace.
func (s *Snapshot) takeNamespace(ctx context.Context) error {
	namespace := index.Namespace()
	gvk := namespace.GroupVersionKind()
	err := s.Client.Get(ctx, client.ObjectKey{Name: s.namespace}, namespace)
	s.indexes[gvk] = map[string]client.IndexerFunc{ByName: fullName}
	if s.objects[gvk] = []client.Object{}; err == nil {
		identify(namespace, gvk)
		s.objects[gvk] = append(s.objects[gvk], namespace)
	}
	return s.expected(gvk, err)
}

// Refused returns why the user may not list a kind, if so.
func (s *Snapshot) Refused(gvk schema.GroupVersionKind) error { return s.refused[gvk] }

// RefusedKinds returns the kinds that the user may not list, sorted.
func (s *Snapshot) RefusedKinds() []schema.GroupVersionKind {
	return slices.SortedFunc(maps.Keys(s.refused), func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) })
}

// misleading returns the refusal of a kind whose absence from the snapshot would be misleading: a source that cannot be seen is
// not missing.
func (s *Snapshot) misleading(gvk schema.GroupVersionKind) error {
	if slices.ContainsFunc(pin.Kinds, func(kind pin.Kind) bool { return revision.GVK(kind) == gvk }) {
		return s.refused[gvk]
	}
	return nil
}

// Objects returns all objects of a kind. The caller does not change them.
func (s *Snapshot) Objects(gvk schema.GroupVersionKind) []client.Object { return s.objects[gvk] }

// Sources returns the metadata of the sources and revisions of a kind.
func (s *Snapshot) Sources(kind pin.Kind) []client.Object { return s.objects[revision.GVK(kind)] }

// Get reads an object of the snapshot, or a live one of a kind that it does not have.
func (s *Snapshot) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(obj, clientgoscheme.Scheme)
	if err != nil {
		return err
	}
	if _, taken := s.objects[gvk]; !taken {
		return s.Client.Get(ctx, key, obj, options...)
	}
	if err := s.misleading(gvk); err != nil {
		return err
	}
	found, err := s.Indexed(gvk, ByName, key.String())
	if err != nil {
		return err
	}
	if len(found) > 0 {
		if reflect.TypeOf(found[0]) != reflect.TypeOf(obj) {
			return fmt.Errorf("the snapshot has %s as %T, not as %T", gvk.Kind, found[0], obj)
		}
		reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(found[0].DeepCopyObject()).Elem())
		obj.GetObjectKind().SetGroupVersionKind(gvk)
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: strings.ToLower(gvk.Kind)}, key.Name)
}

// List lists objects of the snapshot by namespace and one index, up to a limit, or live ones of a kind that it does not have.
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
	if err := s.misleading(gvk); err != nil {
		return err
	}
	wanted := client.ListOptions{}
	wanted.ApplyOptions(options)
	if wanted.FieldSelector != nil && !wanted.FieldSelector.Empty() {
		for _, requirement := range wanted.FieldSelector.Requirements() {
			if objects, err = s.Indexed(gvk, requirement.Field, requirement.Value); err != nil {
				return err
			}
		}
	}
	var found []runtime.Object
	for _, obj := range objects {
		if wanted.Limit > 0 && int64(len(found)) == wanted.Limit {
			break
		}
		if wanted.Namespace == "" || obj.GetNamespace() == wanted.Namespace {
			found = append(found, obj)
		}
	}
	return meta.SetList(list, found)
}

// Indexed returns the objects of a kind that an index has under a value. The caller does not change them.
func (s *Snapshot) Indexed(gvk schema.GroupVersionKind, field, value string) ([]client.Object, error) {
	of := s.indexes[gvk][field]
	if of == nil {
		return nil, fmt.Errorf("the snapshot has no index %s of %s", field, gvk)
	}
	if s.byValue[gvk] == nil {
		s.byValue[gvk] = map[string]map[string][]client.Object{}
	}
	if s.byValue[gvk][field] == nil {
		values := map[string][]client.Object{}
		for _, obj := range s.objects[gvk] {
			for _, v := range of(obj) {
				values[v] = append(values[v], obj)
			}
		}
		s.byValue[gvk][field] = values
	}
	return s.byValue[gvk][field][value], nil
}
