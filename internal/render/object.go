package render

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// object is a Kubernetes object of a stream: a document, or an item of one that is a list.
type object struct {
	document *document
	node     *yaml.Node
	// list is the list that contains it, if any; path is its index in that list, after the indexes of enclosing lists.
	list *yaml.Node
	path []int

	gvk             schema.GroupVersionKind
	namespace, name string
	// value is nil until it is needed.
	value *unstructured.Unstructured
}

// objects returns the objects of a document, which may be a list.
func (d *document) objects(namespace string) []*object {
	if d.node == nil {
		return nil
	}
	return collect(&object{document: d, node: root(d.node)}, "", "", namespace)
}

// collect returns an object, or its items if it is a list. Items of a ConfigMapList are ConfigMaps, whether they say so or not.
func collect(o *object, apiVersion, kind, namespace string) []*object {
	if own := text(o.node, "kind"); own != "" {
		apiVersion, kind = text(o.node, "apiVersion"), own
	}
	items := child(o.node, "items")
	itemKind, isList := strings.CutSuffix(kind, "List")
	if !isList || items == nil || items.Kind != yaml.SequenceNode {
		o.gvk = schema.FromAPIVersionAndKind(apiVersion, kind)
		o.name = text(o.node, "metadata", "name")
		if o.namespace = text(o.node, "metadata", "namespace"); o.namespace == "" {
			o.namespace = namespace
		}
		return []*object{o}
	}
	var objects []*object
	for i, item := range items.Content {
		if isMapping(item) {
			path := append(append([]int{}, o.path...), i)
			objects = append(objects, collect(&object{document: o.document, node: item, list: items, path: path}, apiVersion, itemKind, namespace)...)
		}
	}
	return objects
}

// String returns the name of the object in messages: "configmap/app".
func (o *object) String() string {
	return strings.ToLower(o.gvk.Kind) + "/" + o.name
}

// errorf returns an error that says where the object is.
func (o *object) errorf(format string, args ...any) error {
	return o.document.errorAt(o.node.Line, o.String()+": "+format, args...)
}

// values returns the object as kubectl would send it.
func (o *object) values() (*unstructured.Unstructured, error) {
	if o.value != nil {
		return o.value, nil
	}
	if twice := repeated(o.node); twice != nil {
		return nil, o.document.errorAt(twice.Line, "%s: key %q is defined twice", o, twice.Value)
	}
	values, err := o.document.values()
	if err != nil {
		return nil, err
	}
	for _, i := range o.path {
		// Parsers may read the same text differently. kubectl's parser is the one that counts.
		items, _ := values["items"].([]any)
		if i >= len(items) {
			return nil, o.errorf("it is unclear where the list's items begin: write them differently")
		}
		values, _ = items[i].(map[string]any)
	}
	if unlike := differences(o.node, values); len(unlike) > 0 {
		return nil, o.document.ambiguous(unlike[0])
	}
	o.value = &unstructured.Unstructured{Object: values}
	return o.value, nil
}

// annotate sets an annotation in the metadata below parent, and notes whether that was a change.
func (o *object) annotate(parent *yaml.Node, key, value string) {
	annotations := mapping(mapping(parent, "metadata"), "annotations")
	if put(annotations, key, stringNode(value)) {
		o.document.changed = true
	}
}

// rename changes a scalar that is a name, and keeps its style.
func (o *object) rename(name *yaml.Node, to string) {
	if name.Value != to {
		name.Value, name.Tag = to, yaml.NodeTagString
		o.document.changed = true
	}
}
