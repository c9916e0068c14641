package optin

import (
	"maps"
	"strings"

	"confrev.io/confrev/internal/keys"
)

// WithSettings returns a request's annotations with the settings and notes of the old object in place of its own: kubectl rollout undo replaces them
// with those of an old ReplicaSet (rule 21.5).
func WithSettings(annotations, old map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, annotations)
	maps.DeleteFunc(all, isSetting)
	for key, value := range old {
		if isSetting(key, value) {
			all[key] = value
		}
	}
	return all
}

// KeptSettings returns the settings that a request would change, as they were; empty for those that it would add.
func KeptSettings(annotations, old map[string]string) map[string]string {
	kept := map[string]string{}
	for _, some := range []map[string]string{annotations, old} {
		for key, value := range some {
			if isSetting(key, value) {
				kept[key] = old[key]
			}
		}
	}
	return kept
}

func isSetting(key, _ string) bool { return strings.HasPrefix(key, keys.Prefix) }
