package metadata

import (
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
		pointer := path + "/annotations/" + strings.ReplaceAll(key, "/", "~1")
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
