package workload_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"confrev.io/confrev/internal/workload"
)

// quantityPlaces returns paths of all quantities in a type: "spec.containers[].resources.limits{}".
func quantityPlaces(t reflect.Type) (all []string) {
	if t == reflect.TypeFor[resource.Quantity]() {
		return []string{""}
	}
	below := func(prefix string, t reflect.Type) {
		for _, place := range quantityPlaces(t) {
			all = append(all, prefix+place)
		}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return quantityPlaces(t.Elem())
	case reflect.Slice:
		below("[]", t.Elem())
	case reflect.Map:
		below("{}", t.Elem())
	case reflect.Struct:
		for field := range t.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "" {
				name = "." + name
			}
			below(name, field.Type)
		}
	}
	return all
}

// put makes a value that has another one at a place.
func put(place string, value any) any {
	switch {
	case place == "":
		return value
	case strings.HasPrefix(place, "[]"):
		return []any{put(place[2:], value)}
	case strings.HasPrefix(place, "{}"):
		return map[string]any{"cpu": put(place[2:], value)}
	}
	end := strings.IndexAny(place[1:], ".[{") + 1
	if end == 0 {
		end = len(place)
	}
	return map[string]any{place[1:end]: put(place[end:], value)}
}

// Anyone who may create a custom resource chooses its quantities, and one of a dozen characters could take minutes, wherever it is. The API server reads them
// only in kinds of its own.
func TestHardQuantitiesAreNotRead(t *testing.T) {
	places := quantityPlaces(reflect.TypeFor[corev1.PodTemplateSpec]())
	if len(places) < 15 {
		t.Fatalf("only %d places: %q", len(places), places)
	}
	for name, test := range map[string]struct {
		quantity string
		hard     bool
	}{
		"usual":                       {"100m", false},
		"a power of two":              {"1.5Gi", false},
		"exa":                         {"1E", false},
		"exbi":                        {"1Ei", false},
		"an exponent":                 {"1e3", false},
		"an exponent with many zeros": {"1e-000000999", false},
		"a long one":                  {"0." + strings.Repeat("7", 98), false},
		"one that is too long":        {"0." + strings.Repeat("7", 99), true},
		"one that takes seconds":      {"0." + strings.Repeat("7", 1<<20), true},
		"four digits":                 {"1e-1000", true},
		"four digits, upper case":     {"1E-1000", true},
		"four digits above":           {"1e1000", true},
		"one that takes a minute":     {"1e-99999999", true},
		"one with a sign and zeros":   {"+1e-0099999999", true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, place := range places {
				template := put(place, test.quantity)
				for kind, spec := range map[*workload.Kind]map[string]any{&fleet: {"pods": map[string]any{"template": template}}, &workload.Rollout: {"template": template}} {
					obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
					obj.SetGroupVersionKind(kind.GVK)
					if _, err := kind.Template(obj); (err != nil) != test.hard {
						t.Errorf("at %s of a %s: %v", place, kind.GVK.Kind, err)
					}
				}
				raw, marshalErr := json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
				if marshalErr != nil {
					t.Fatal(marshalErr)
				}
				revision := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: raw}}
				if _, err := workload.ControllerRevision.Template(revision); (err != nil) != test.hard {
					t.Errorf("at %s of a ControllerRevision: %v", place, err)
				}
			}
		})
	}
}

// An item of a list takes three characters in JSON, and a container a thousand bytes in memory.
func TestTemplatesWithTooManyItemsAreNotRead(t *testing.T) {
	lists := func(lengths ...int) any {
		var containers []any
		for _, length := range lengths {
			containers = append(containers, map[string]any{"env": slices.Repeat([]any{map[string]any{}}, length)})
		}
		return map[string]any{"spec": map[string]any{"containers": containers}}
	}
	for name, test := range map[string]struct {
		template any
		many     bool
	}{
		"a usual one":              {lists(20, 30), false},
		"as many as there may be":  {lists(9_999), false},
		"one more":                 {lists(10_000), true},
		"as many in several lists": {lists(4_999, 4_999), false},
		"more in several lists":    {lists(4_999, 5_000), true},
		"more than a megabyte":     {lists(300_000), true},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": test.template}}}
			obj.SetGroupVersionKind(workload.Rollout.GVK)
			if _, err := workload.Rollout.Template(obj); (err != nil) != test.many || err != nil && !strings.Contains(err.Error(), "items") {
				t.Error(err)
			}
		})
	}
}
