package workload

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Config is the schema of the file that describes further kinds of workloads.
type Config struct {
	Workloads []ConfiguredKind `json:"workloads"`
}

// ConfiguredKind describes a kind of workload that confrev does not know by itself.
type ConfiguredKind struct {
	ConfiguredObject
	// Holder is the kind of the objects that keep the workload's templates alive, as its controller creates them; each must have
	// the workload as its controller.
	Holder ConfiguredObject `json:"holder"`
}

// ConfiguredObject describes the API kind of a workload or a holder.
type ConfiguredObject struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	// Template is the path of the pod template; "spec.template" if empty. It does not count for holders that confrev knows.
	Template string `json:"template"`
}

const defaultPath = "spec.template"

var (
	kindForm    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	versionForm = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)
	pathForm    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)*$`)
)

// ParseConfig reads a file of configured kinds. An unknown field is an error, and so is a kind that confrev knows by itself. The
// error joins one error for each faulty entry; ParseConfig returns the other kinds together with it.
func ParseConfig(data []byte) ([]Kind, error) {
	var config Config
	if err := yaml.UnmarshalStrict(data, &config); err != nil {
		return nil, err
	}
	var kinds []Kind
	var problems []error
	for i, configured := range config.Workloads {
		kind := configured.kind()
		err := errors.Join(check(kind.GVK, kind.Path), check(kind.Holder.GVK, kind.Holder.Path))
		if err == nil && slices.ContainsFunc(slices.Concat(Standard(), kinds), func(k Kind) bool { return k.GVK.GroupKind() == kind.GVK.GroupKind() }) {
			err = fmt.Errorf("%s is already known", kind.GVK.GroupKind())
		}
		if err == nil && slices.ContainsFunc(kinds, func(k Kind) bool { return k.Holder.GVK == kind.Holder.GVK && k.Holder != kind.Holder }) {
			err = fmt.Errorf("holders of kind %s have their template at another path for another kind", kind.Holder.GVK.GroupKind())
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("workloads[%d]: %w", i, err))
			continue
		}
		kinds = append(kinds, kind)
	}
	return kinds, errors.Join(problems...)
}

func (c ConfiguredKind) kind() Kind {
	holder := HolderKind{GVK: c.Holder.gvk()}
	if !typed.Recognizes(holder.GVK) {
		holder.Path = cmp.Or(c.Holder.Template, defaultPath)
	}
	return Kind{GVK: c.gvk(), Path: cmp.Or(c.Template, defaultPath), Holder: holder}
}

func (c ConfiguredObject) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: c.Group, Version: c.Version, Kind: c.Kind}
}

func check(gvk schema.GroupVersionKind, path string) error {
	switch {
	case !kindForm.MatchString(gvk.Kind):
		return fmt.Errorf("kind %q is invalid: it must be in CamelCase, such as Deployment", gvk.Kind)
	case !versionForm.MatchString(gvk.Version):
		return fmt.Errorf("version %q of %s is invalid: it must be a version such as v1", gvk.Version, gvk.Kind)
	case path != "" && !pathForm.MatchString(path):
		return fmt.Errorf("template %q of %s is invalid: it must be a path such as spec.template", path, gvk.Kind)
	}
	return nil
}

// KeepsAnnotations reports whether the API server keeps the annotations of the pod template under a schema, which is that of a
// version in a CustomResourceDefinition. The API server silently prunes what a structural schema does not specify:
// https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#field-pruning
func (k Kind) KeepsAnnotations(schema map[string]any) bool {
	return keeps(schema, append(strings.Split(k.Path, "."), "metadata", "annotations", "any"))
}

// keeps follows a path into a schema. If a property has a schema of its own, that one counts, whether or not unknown fields are
// preserved around it.
func keeps(schema map[string]any, path []string) bool {
	preserved := schema["x-kubernetes-preserve-unknown-fields"] == true
	if len(path) == 0 {
		return true
	}
	if schema["x-kubernetes-embedded-resource"] == true && slices.Contains([]string{"apiVersion", "kind", "metadata"}, path[0]) {
		return true
	}
	properties, _ := schema["properties"].(map[string]any)
	if property, ok := properties[path[0]].(map[string]any); ok {
		return keeps(property, path[1:])
	}
	switch additional := schema["additionalProperties"].(type) {
	case map[string]any:
		return keeps(additional, path[1:])
	case bool:
		return additional || preserved
	}
	return preserved
}

// KeptBy reports whether the version of this kind in a CustomResourceDefinition keeps the annotations of its templates.
func (k Kind) KeptBy(definition *unstructured.Unstructured) bool {
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if version["name"] != k.GVK.Version {
			continue
		}
		schema, specified, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
		return !specified || k.KeepsAnnotations(schema)
	}
	return true
}
