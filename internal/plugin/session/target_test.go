package session

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/installation"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/operator"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// The API server's preferred version of a kind may be another than the configured one. It is the same workload.
func TestAsTargetTakesAKindInWhateverVersion(t *testing.T) {
	kinds, err := workload.ParseConfig([]byte(`workloads:
- {group: example.com, version: v1, kind: WebApp, holder: {group: apps, version: v1, kind: ReplicaSet}}`))
	if err != nil {
		t.Fatal(err)
	}
	installed := installation.Installation{Options: operator.Options{Kinds: kinds}}
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

// Labels of a workload and of its namespace opt it in like annotations, so what the plugin writes must know them.
func TestLabelsAreConfiguration(t *testing.T) {
	for name, tt := range map[string]struct {
		own, namespace string
		all, none      bool
	}{
		"no label":                              {},
		"the workload's":                        {own: "all", all: true},
		"the namespace's":                       {namespace: "all", all: true},
		"the workload's before the namespace's": {own: "none", namespace: "all", none: true},
	} {
		t.Run(name, func(t *testing.T) {
			labelled := func(obj client.Object, track string) client.Object {
				if track != "" {
					obj.SetLabels(map[string]string{keys.Track: track})
				}
				return obj
			}
			web := labelled(gen.Deployment("web"), tt.own)
			namespace := labelled(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: web.GetNamespace()}}, tt.namespace)
			c := fake.NewClientBuilder().WithObjects(namespace).Build()
			config, err := Target{Kind: workload.Deployment, Object: web}.Config(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if all, none := config.Track.Tracks(pin.Source{Kind: pin.ConfigMap, Name: "app"}), config.Track.None(); all != tt.all || none != tt.none {
				t.Errorf("tracks a source: %t, want %t; opted out: %t, want %t", all, tt.all, none, tt.none)
			}
		})
	}
}
