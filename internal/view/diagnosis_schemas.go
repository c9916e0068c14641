package view

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/workload"
)

// customResourceDefinition is the kind of the objects that define custom resources.
var customResourceDefinition = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// schemas checks whether the API server keeps what confrev writes to workloads that are custom resources.
func (d *doctor) schemas(ctx context.Context) error {
	for _, kind := range d.Kinds {
		mapping, err := d.live.RESTMapper().RESTMapping(kind.GVK.GroupKind(), kind.GVK.Version)
		if err != nil || !strings.Contains(kind.GVK.Group, ".") {
			// It is not served, or Kubernetes' own.
			continue
		}
		definition := &unstructured.Unstructured{}
		definition.SetGroupVersionKind(customResourceDefinition)
		name := mapping.Resource.GroupResource().String()
		// One that another API server serves has no definition.
		found, _, err := d.read(ctx, definition, "", name)
		if err != nil {
			return err
		}
		if found && !keepsAnnotations(kind, definition) {
			d.addFinding(SeverityWarning, "PinsNotKept", customResourceDefinition, client.ObjectKey{Name: name},
				"let the schema keep annotations at "+kind.Path+".metadata: see docs/troubleshooting.md, PinsNotKept",
				"the API server prunes annotations at %s.metadata of every %s, so none is ever pinned", kind.Path, kind.Resource())
		}
	}
	return nil
}

// keepsAnnotations reports whether the version of a kind that confrev writes keeps the annotations of its templates.
func keepsAnnotations(kind workload.Kind, definition *unstructured.Unstructured) bool {
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if version["name"] != kind.GVK.Version {
			continue
		}
		schema, specified, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
		return !specified || kind.KeepsAnnotations(schema)
	}
	return true
}
