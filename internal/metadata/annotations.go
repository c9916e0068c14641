package metadata

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetAnnotations returns the operations that set annotations at a path, or remove those whose value is empty. Neither the annotations nor the
// metadata need exist yet.
func SetAnnotations(path string, existing *metav1.ObjectMeta, values map[string]string) []jsonpatch.Operation {
	var ops []jsonpatch.Operation
	added := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := values[key]
		pointer := path + "/annotations/" + escaped(key)
		switch value {
		case existing.Annotations[key]:
		case "":
			ops = append(ops, jsonpatch.Operation{Operation: "remove", Path: pointer})
		default:
			added[key] = value
			ops = append(ops, jsonpatch.Operation{Operation: "add", Path: pointer, Value: value})
		}
	}
	switch {
	case len(added) == 0 || len(existing.Annotations) > 0:
		return ops
	case equality.Semantic.DeepEqual(*existing, metav1.ObjectMeta{}):
		return []jsonpatch.Operation{{Operation: "add", Path: path, Value: map[string]any{"annotations": added}}}
	}
	return []jsonpatch.Operation{{Operation: "add", Path: path + "/annotations", Value: added}}
}

// SameAnnotations returns the operations that test that those of an object's annotations that have these keys are still as they were read, also the ones
// that it lacks.
func SameAnnotations(read metav1.Object, keys []string) []jsonpatch.Operation {
	return same("/metadata/annotations", read.GetAnnotations(), keys)
}

// SameLabels does the same for labels.
func SameLabels(read metav1.Object, keys []string) []jsonpatch.Operation {
	return same("/metadata/labels", read.GetLabels(), keys)
}

func same(path string, read map[string]string, keys []string) []jsonpatch.Operation {
	if len(read) == 0 {
		// JSON Patch knows nothing of what would be in a map that is missing.
		return []jsonpatch.Operation{absent(path)}
	}
	ops := make([]jsonpatch.Operation, 0, len(keys))
	for _, key := range keys {
		pointer := path + "/" + escaped(key)
		if value, ok := read[key]; ok {
			ops = append(ops, jsonpatch.NewOperation("test", pointer, value))
		} else {
			ops = append(ops, absent(pointer))
		}
	}
	return ops
}

// absent tests that there is nothing at a pointer. (An operation with a value of nil would have none.)
func absent(pointer string) jsonpatch.Operation {
	return jsonpatch.NewOperation("test", pointer, json.RawMessage("null"))
}

// escaped returns a key as an element of a JSON pointer. Keys of labels and annotations have no tilde.
func escaped(key string) string { return strings.ReplaceAll(key, "/", "~1") }
