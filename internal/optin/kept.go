package optin

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
)

// SameSettings reports whether two objects have the same settings as annotations, whatever confrev has noted.
func SameSettings(obj, other metav1.Object) bool {
	settings := func(of metav1.Object) map[string]string {
		all := maps.Clone(of.GetAnnotations())
		maps.DeleteFunc(all, func(key, value string) bool { return !isSetting(key, value) || slices.Contains(written, key) })
		return all
	}
	return maps.Equal(settings(obj), settings(other))
}

// WithSettings returns the annotations of a request's object that goes back to an earlier template, with the settings that count (rule 21.5), and with
// the notes of the old one. kubectl rollout undo replaces all of these with those of an old ReplicaSet. restored are the annotations of those that the
// request may go back to: where it has the value of one of them, or lacks the setting as that does, no one asked for the change. Otherwise, someone did.
func WithSettings(obj, old metav1.Object, restored ...map[string]string) map[string]string {
	annotations := map[string]string{}
	maps.Copy(annotations, obj.GetAnnotations())
	for key, before := range KeptSettings(obj, old) {
		now, has := obj.GetAnnotations()[key]
		isRestored := func(from map[string]string) bool {
			value, had := from[key]
			return value == now && had == has
		}
		if !slices.Contains(written, key) && !slices.ContainsFunc(restored, isRestored) {
			continue
		}
		if _, had := old.GetAnnotations()[key]; had {
			annotations[key] = before
		} else {
			delete(annotations, key)
		}
	}
	return annotations
}

func isSetting(key, _ string) bool { return strings.HasPrefix(key, keys.Prefix) }

// KeptSettings returns the settings that a request would change, as they were; empty for those that it would add.
func KeptSettings(obj, old metav1.Object) map[string]string {
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
