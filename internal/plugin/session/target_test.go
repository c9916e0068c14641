package session

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/controller"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/internal/workload"
)

// The API server's preferred version of a kind may be another than the configured one. It is the same workload.
func TestAsTargetTakesAKindInWhateverVersion(t *testing.T) {
	kinds, err := workload.ParseConfig([]byte(`workloads:
- {group: example.com, version: v1, kind: WebApp, holder: {group: apps, version: v1, kind: ReplicaSet}}`))
	if err != nil {
		t.Fatal(err)
	}
	installed := view.Installation{Options: controller.Options{Kinds: kinds}}
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "WebApp"})
	stored.SetNamespace("default")
	stored.SetName("web")
	c := fake.NewClientBuilder().WithObjects(stored).Build()
	for version, kind := range map[string]string{"v1": "WebApp", "v2": "WebApp", "v3": "Other"} {
		gvk := schema.GroupVersionKind{Group: "example.com", Version: version, Kind: kind}
		read := stored.DeepCopy()
		read.SetGroupVersionKind(gvk)
		info := &resource.Info{Namespace: "default", Name: "web", Object: read, Mapping: &meta.RESTMapping{GroupVersionKind: gvk}}
		found, err := asTarget(t.Context(), c, info, installed)
		if kind == "Other" {
			if !says(err, "is not a workload that confrev handles") {
				t.Errorf("%s: %v", gvk, err)
			}
			continue
		}
		if err != nil || found.Kind.GVK.Version != "v1" || found.Object.GetName() != "web" || found.Object.GetObjectKind().GroupVersionKind().Version != "v1" {
			t.Errorf("%s: %v, %+v", gvk, err, found.Object)
		}
	}
}
