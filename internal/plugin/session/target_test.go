package session

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/operator"
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
	installed := view.Installation{Options: operator.Options{Kinds: kinds}}
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "WebApp"})
	stored.SetNamespace("default")
	stored.SetName("web")
	c := fake.NewClientBuilder().WithObjects(stored).Build()
	for kind, want := range map[string]string{"WebApp": "", "Other": "other/web is not a workload that confrev handles"} {
		found, err := read(t.Context(), c, "default", view.Object{GroupKind: schema.GroupKind{Group: "example.com", Kind: kind}, Name: "web"}, installed)
		if !says(err, want) {
			t.Errorf("%s: %v", kind, err)
		}
		if want == "" && (found.Kind.GVK.Version != "v1" || found.Object.GetName() != "web") {
			t.Errorf("%v, %+v", found.Kind, found.Object)
		}
	}
}
