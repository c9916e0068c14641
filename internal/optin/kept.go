package optin

import (
	"maps"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
)

// WithSettings returns a request's object with the settings and notes of the old one: kubectl rollout undo replaces them with those of an
// old ReplicaSet (rule 21.5).
func WithSettings(obj, old client.Object) client.Object {
	obj = obj.DeepCopyObject().(client.Object)
	annotations := map[string]string{}
	maps.Copy(annotations, obj.GetAnnotations())
	maps.DeleteFunc(annotations, isSetting)
	for key, value := range old.GetAnnotations() {
		if isSetting(key, value) {
			annotations[key] = value
		}
	}
	obj.SetAnnotations(annotations)
	return obj
}

func isSetting(key, _ string) bool { return strings.HasPrefix(key, keys.Prefix) }

// KeptSettings returns the settings that a request would change, as they were; empty for those that it would add.
func KeptSettings(obj, old client.Object) map[string]string {
	kept := map[string]string{}
	for _, annotations := range []map[string]string{obj.GetAnnotations(), old.GetAnnotations()} {
		for key, value := range annotations {
			if isSetting(key, value) {
				kept[key] = old.GetAnnotations()[key]
			}
		}
	}
	return kept
}
