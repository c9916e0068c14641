package reconcile

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// A workload without a template of its own is told that no one handles the kind that has it, or that its settings belong there.
func TestMisdirected(t *testing.T) {
	all := &workload.Kinds{}
	all.Add(workload.Deployment)
	all.Add(workload.DaemonSet)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gen.Namespace, Labels: map[string]string{keys.Track: "all"}}}
	for name, test := range map[string]struct {
		named, track string
		namespace    bool
		warned       bool
	}{
		"a kind that is handled":             {"Deployment", "", false, false},
		"a kind that is handled, the same":   {"Deployment", "all", false, false},
		"a kind that is handled, another":    {"Deployment", "configmap/x", false, true},
		"a template that is not there":       {"DaemonSet", "all", false, false},
		"one that is not":                    {"ReplicaSet", "all", false, true},
		"one that is not, by the namespace":  {"ReplicaSet", "", true, true},
		"one that is not, and not asked for": {"ReplicaSet", "", false, false},
		"one that is not, opted out":         {"ReplicaSet", "none", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
				"workloadRef": map[string]any{"apiVersion": "apps/v1", "kind": test.named, "name": "web"}}}}
			obj.SetGroupVersionKind(workload.Rollout.GVK)
			obj.SetNamespace(gen.Namespace)
			obj.SetName("web")
			if test.track != "" {
				obj.SetAnnotations(map[string]string{keys.Track: test.track})
			}
			b := fake.NewClientBuilder().WithObjects(gen.Web("app:1", gen.Annotated(keys.Mode, "restart")))
			if test.namespace {
				b = b.WithObjects(namespace.DeepCopy())
			}
			r := &Workloads{Engine: &rollout.Engine{Kind: workload.Rollout, Kinds: all, Client: b.Build()}}
			named, of, ok := r.Kind.WorkloadRef(obj)
			if !ok {
				t.Fatal("it refers to nothing")
			}
			got, err := r.misdirected(t.Context(), obj, named, of)
			if err != nil || (len(got) == 1) != test.warned || len(got) == 1 && !strings.Contains(got[0].Text, map[string]string{
				"ReplicaSet": "ReplicaSet.apps web", "Deployment": "confrev.io/track has no effect here: the pod template is that of deployment/web"}[test.named]) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
