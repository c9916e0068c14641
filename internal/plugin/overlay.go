package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/openapi3"
	kubectldiff "k8s.io/kubectl/pkg/cmd/diff"
	"k8s.io/kubectl/pkg/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// edited is an object of the files: as it is, nil when it does not exist, and as it would be.
type edited struct {
	gvk           schema.GroupVersionKind
	before, after client.Object
}

// edits are the sources and workloads of the files.
type edits struct{ all []edited }

// read asks the API server what it would make of each object of the files.
func (v *preview) read(c *connection, kinds []workload.Kind) (*edits, error) {
	root, err := v.openAPI()
	if err != nil {
		return nil, err
	}
	result := v.factory.NewBuilder().Unstructured().NamespaceParam(c.namespace).DefaultNamespace().
		FilenameParam(false, &v.files).Flatten().Do()
	found := &edits{}
	err = result.Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		empty, known := modelOf(info.Mapping.GroupVersionKind, kinds)
		if !known {
			v.printNotes(otherVersion(info, kinds))
			return nil
		}
		e, err := v.dryRun(info, root, empty)
		if err != nil {
			return fmt.Errorf("%s: %w", info.ObjectName(), err)
		}
		found.all = append(found.all, e)
		return nil
	})
	return found, err
}

func (v *preview) openAPI() (openapi3.Root, error) {
	client, err := v.factory.OpenAPIV3Client()
	if err != nil {
		return nil, err
	}
	return openapi3.NewRoot(client), nil
}

// modelOf gives how to make an empty object of a kind that matters.
func modelOf(gvk schema.GroupVersionKind, kinds []workload.Kind) (func() client.Object, bool) {
	for _, kind := range pin.Kinds {
		if revision.GVK(kind) == gvk {
			return func() client.Object { return newSource(kind) }, true
		}
	}
	for _, kind := range kinds {
		if kind.GVK == gvk {
			return kind.New, true
		}
	}
	return nil, false
}

// otherVersion says that an object is left out because the controller handles its kind in another version: only the API server
// can convert between them.
func otherVersion(info *resource.Info, kinds []workload.Kind) []string {
	gvk := info.Mapping.GroupVersionKind
	for _, kind := range kinds {
		if kind.GVK.GroupKind() == gvk.GroupKind() {
			return []string{fmt.Sprintf("%s is left out: it is written as %s, and confrev handles %s", info.ObjectName(), gvk.GroupVersion(), kind.GVK.GroupVersion())}
		}
	}
	return nil
}

// dryRun lets the API server apply an object as kubectl diff does.
func (v *preview) dryRun(info *resource.Info, root openapi3.Root, empty func() client.Object) (edited, error) {
	local := info.Object.DeepCopyObject()
	e := edited{gvk: info.Mapping.GroupVersionKind}
	switch err := info.Get(); {
	case apierrors.IsNotFound(err):
		info.Object = nil
	case err != nil:
		return e, err
	default:
		e.before = empty()
		if err := convert(info.Object, e.before); err != nil {
			return e, err
		}
	}
	merged, err := kubectldiff.InfoObject{
		LocalObj: local, Info: info, Encoder: scheme.DefaultJSONEncoder(), OpenAPIGetter: v.factory, OpenAPIV3Root: root,
		ServerSideApply: v.serverSide, FieldManager: v.manager, ForceConflicts: v.force, IOStreams: v.IOStreams,
	}.Merged()
	if err != nil {
		return e, withoutData(e.gvk, err)
	}
	e.after = empty()
	if err := convert(merged, e.after); err != nil {
		return e, err
	}
	if _, is := e.source(); is && (e.before == nil || !revision.SameContent(e.before, e.after)) {
		// No revision is to be taken for a copy of what was read at this version.
		e.after.SetResourceVersion("preview")
	}
	return e, nil
}

func convert(from runtime.Object, into client.Object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(content, into)
}

// source gives the source that an edit is of, if it is of one.
func (e *edited) source() (pin.Source, bool) {
	for _, kind := range pin.Kinds {
		if revision.GVK(kind) == e.gvk {
			return pin.Source{Kind: kind, Name: e.after.GetName()}, true
		}
	}
	return pin.Source{}, false
}

func (e *edits) namespaces() []string {
	names := map[string]bool{}
	for _, one := range e.all {
		names[one.after.GetNamespace()] = true
	}
	return slices.Sorted(maps.Keys(names))
}

func (e *edits) of(namespace string) []edited {
	return slices.DeleteFunc(slices.Clone(e.all), func(one edited) bool { return one.after.GetNamespace() != namespace })
}

// secrets tells whether Secrets matter in a namespace: some are edited.
func (e *edits) secrets(namespace string) bool {
	return slices.ContainsFunc(e.of(namespace), func(one edited) bool { return one.gvk == revision.GVK(pin.Secret) })
}

func (e *edits) find(gvk schema.GroupVersionKind, obj client.Object) *edited {
	for i, one := range e.all {
		if one.gvk == gvk && one.after.GetName() == obj.GetName() && one.after.GetNamespace() == obj.GetNamespace() {
			return &e.all[i]
		}
	}
	return nil
}

// edited tells whether a source is among the edits.
func (e *edits) edited(namespace string, source pin.Source) bool {
	return e.find(revision.GVK(source.Kind), revision.Metadata(revision.Ref{Kind: source.Kind, Namespace: namespace, Name: source.Name})) != nil
}

// overlay shows a cluster as it would be with the edits. It writes nothing.
type overlay struct {
	client.Client
	edits *edits
}

// Get reads an object as it would be.
func (o *overlay) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(obj, scheme.Scheme)
	if err != nil {
		return err
	}
	named := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if one := o.edits.find(gvk, named); one != nil {
		return convert(one.after, obj)
	}
	return o.Client.Get(ctx, key, obj, options...)
}

// List lists objects as they would be.
func (o *overlay) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := o.Client.List(ctx, list, options...); err != nil {
		return err
	}
	gvk, err := apiutil.GVKForObject(list, scheme.Scheme)
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
		if one.gvk != gvk {
			continue
		}
		item, err := o.as(list, one)
		if err != nil {
			return err
		}
		items = slices.DeleteFunc(items, func(other runtime.Object) bool {
			m, err := meta.Accessor(other)
			return err == nil && m.GetName() == one.after.GetName()
		})
		items = append(items, item)
	}
	return meta.SetList(list, items)
}

// as gives an edited object as an item of a list: its metadata, where the list is one of metadata.
func (o *overlay) as(list client.ObjectList, one edited) (runtime.Object, error) {
	if _, is := list.(*metav1.PartialObjectMetadataList); !is {
		return one.after, nil
	}
	item := &metav1.PartialObjectMetadata{}
	return item, convert(one.after, item)
}

// withoutPins are the annotations of a template that confrev does not write.
func withoutPins(annotations map[string]string) map[string]string {
	others := maps.Clone(annotations)
	delete(others, keys.Pins)
	delete(others, keys.Hashes)
	if len(others) == 0 {
		return nil
	}
	return others
}

// printAs prints something as JSON or YAML.
func printAs(out io.Writer, format string, what any) error {
	text, err := json.MarshalIndent(what, "", "    ")
	if format == "yaml" && err == nil {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(raw(out), string(text))
	return err
}

// withoutData leaves out of an error about a Secret what may quote its data: pipelines keep what they print. What only names
// objects and users stays.
func withoutData(gvk schema.GroupVersionKind, err error) error {
	if gvk.GroupKind() != revision.GVK(pin.Secret).GroupKind() || apierrors.IsForbidden(err) || apierrors.IsConflict(err) ||
		apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) {
		return err
	}
	return errors.New("it cannot be applied. The reason may quote its data: kubectl apply --dry-run=server says it")
}
