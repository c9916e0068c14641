package workload

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What is in the cache is shared, so comparing it leaves it as it is.
func TestOnlyScaled(t *testing.T) {
	rollout := func(generation int64, change ...string) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{Object: map[string]any{
			"spec":   map[string]any{"replicas": generation, "template": map[string]any{"spec": map[string]any{}}},
			"status": map[string]any{"replicas": generation},
		}}
		obj.SetUID("rollout")
		obj.SetGeneration(generation)
		if len(change) > 0 {
			if err := unstructured.SetNestedField(obj.Object, "x", change...); err != nil {
				t.Fatal(err)
			}
		}
		return obj
	}
	for name, test := range map[string]struct {
		after *unstructured.Unstructured
		want  bool
	}{
		"scaled":                     {rollout(2), true},
		"the same":                   {rollout(1), false},
		"another template":           {rollout(2, "spec", "template", "spec", "nodeName"), false},
		"another strategy":           {rollout(2, "spec", "strategy"), false},
		"a note":                     {rollout(2, "metadata", "annotations", "a"), false},
		"a label":                    {rollout(2, "metadata", "labels", "a"), false},
		"another object":             {rollout(2, "metadata", "uid"), false},
		"the status of a controller": {rollout(2, "status", "phase"), true},
	} {
		before := rollout(1)
		if got := OnlyScaled(before, test.after); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
		if replicas, _, err := unstructured.NestedInt64(before.Object, "spec", "replicas"); replicas != 1 || err != nil {
			t.Errorf("%s: afterwards, the earlier state has %d replicas, %v", name, replicas, err)
		}
	}
}
