package rollout

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// unstructuredOf makes an object of a kind without a Go type.
func unstructuredOf(gvk schema.GroupVersionKind, name string, spec map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	if spec != nil {
		obj.Object["spec"] = spec
	}
	obj.SetGroupVersionKind(gvk)
	obj.SetNamespace(gen.Namespace)
	obj.SetName(name)
	return obj
}

// rolloutOf makes a Rollout that refers to another workload.
func rolloutOf(name, apiVersion, kind, referred string) *unstructured.Unstructured {
	return unstructuredOf(workload.Rollout.GVK, name, map[string]any{
		"workloadRef": map[string]any{"apiVersion": apiVersion, "kind": kind, "name": referred},
	})
}

// reversed lists in the reverse order: a cache has none.
type reversed struct{ client.Reader }

func (r reversed) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := r.Reader.List(ctx, list, options...); err != nil {
		return err
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	for i, j := 0, len(objects)-1; i < j; i, j = i+1, j-1 {
		objects[i], objects[j] = objects[j], objects[i]
	}
	return meta.SetList(list, objects)
}

// fleet is a configured kind.
var fleet = workload.Kind{
	GVK:    schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Fleet"},
	Path:   "spec.template",
	Holder: workload.HolderKind{GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "FleetSet"}, Path: "spec.template"},
}
