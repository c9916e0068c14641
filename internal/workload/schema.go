package workload

import (
	"slices"
	"strings"
)

// KeepsAnnotations reports whether the API server keeps the annotations of the pod template under a schema, which is that of a
// version in a CustomResourceDefinition. The API server silently prunes what a structural schema does not specify:
// https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#field-pruning
func (k Kind) KeepsAnnotations(schema map[string]any) bool {
	return keeps(schema, append(strings.Split(k.Path, "."), "metadata", "annotations", "any"))
}

// keeps follows a path into a schema. If a property has a schema of its own, that one counts, whether or not unknown fields are
// preserved around it.
func keeps(schema map[string]any, path []string) bool {
	preserved := schema["x-kubernetes-preserve-unknown-fields"] == true
	if len(path) == 0 {
		return true
	}
	if schema["x-kubernetes-embedded-resource"] == true && slices.Contains([]string{"apiVersion", "kind", "metadata"}, path[0]) {
		return true
	}
	properties, _ := schema["properties"].(map[string]any)
	if property, ok := properties[path[0]].(map[string]any); ok {
		return keeps(property, path[1:])
	}
	switch additional := schema["additionalProperties"].(type) {
	case map[string]any:
		return keeps(additional, path[1:])
	case bool:
		return additional || preserved
	}
	return preserved
}
