//go:build chaos

package chaos

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"confrev.io/confrev/internal/keys"
)

// What a pod is to read is computed here from the JSON of its holder, with nothing of confrev's packages except the names of its
// keys: a fault in those would otherwise be one of the expectation too.

// nameFields are the fields of a pod spec that name a ConfigMap or a Secret, each with the field of the name in it.
var nameFields = map[string]struct{ kind, field string }{
	"configMap":       {"configmap", "name"},
	"configMapRef":    {"configmap", "name"},
	"configMapKeyRef": {"configmap", "name"},
	"secret":          {"secret", "secretName"},
	"secretRef":       {"secret", "name"},
	"secretKeyRef":    {"secret", "name"},
}

// eachReference calls do with each object of a pod spec that names a source, with the kind of that and the field of its name. The
// service account's volume is left out: the API server adds it to pods.
func eachReference(value any, do func(kind, field string, in map[string]any)) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			eachReference(item, do)
		}
	case map[string]any:
		for key, item := range v {
			in, ok := item.(map[string]any)
			if name, names := nameFields[key]; ok && names {
				field := name.field
				// In a projected volume, a Secret has its name where all others have it.
				if _, projected := in["name"]; projected {
					field = "name"
				}
				if in[field] != "kube-root-ca.crt" {
					do(name.kind, field, in)
				}
				continue
			}
			eachReference(item, do)
		}
	}
}

// references returns what a pod spec names, sorted, each as often as it does.
func references(spec any) []string {
	var all []string
	eachReference(spec, func(kind, field string, in map[string]any) {
		name, _ := in[field].(string)
		all = append(all, kind+"/"+name)
	})
	slices.Sort(all)
	return all
}

// pinForm is a pin, and revisionForm the name of a revision.
var (
	pinForm      = regexp.MustCompile(`^((configmap|secret)/([a-z0-9][a-z0-9.-]*))=([a-z0-9][a-z0-9.-]*)@([1-9][0-9]{0,14})$`)
	revisionForm = regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{10}$`)
)

// pinned has the revision of each source: "configmap/one" is "one-5f7d8c9b2k".
type pinned map[string]string

// parsePins reads pins. ok is false if they are malformed: then no pod may start with them.
func parsePins(text string) (pins pinned, ok bool) {
	pins = pinned{}
	if text == "" {
		return pins, true
	}
	for item := range strings.SplitSeq(text, ",") {
		match := pinForm.FindStringSubmatch(item)
		if match == nil || pins[match[1]] != "" || sourceOf(match[4]) != match[3] {
			return nil, false
		}
		pins[match[1]] = match[4]
	}
	return pins, true
}

// sourceOf returns the name of the source whose revision has this name, or "" if it is not the name of a revision.
func sourceOf(revision string) string {
	if match := revisionForm.FindStringSubmatch(revision); match != nil {
		return match[1]
	}
	return ""
}

// pinsText returns the pins of a pod template.
func pinsText(template map[string]any) string {
	return field(template, "metadata", "annotations", keys.Pins)
}

// readBy returns what pods of a template must read. ok is false if there may be no pods.
func readBy(template map[string]any) (names []string, ok bool) {
	pins, ok := parsePins(pinsText(template))
	for _, name := range references(template["spec"]) {
		if revision := pins[name]; revision != "" {
			name = ref(name).kind() + "/" + revision
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, ok
}

// usedBy returns what an object with a pod template needs: what the template names, and what it pins (rule 13).
func usedBy(obj *unstructured.Unstructured) map[string]bool {
	used := map[string]bool{}
	template := templateOf(obj)
	for _, name := range references(template["spec"]) {
		used[name] = true
	}
	pins, _ := parsePins(pinsText(template))
	for source, revision := range pins {
		used[ref(source).kind()+"/"+revision] = true
	}
	return used
}

// isRevision reports whether an object has the form of a revision (rule 20).
func isRevision(obj *unstructured.Unstructured) bool {
	immutable, _, err := unstructured.NestedBool(obj.Object, "immutable")
	source := obj.GetAnnotations()[keys.SourceName]
	return err == nil && immutable && source != "" && obj.GetLabels()[keys.Content] != "" && sourceOf(obj.GetName()) == source
}
