package optin

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/jsonpath"

	"confrev.io/confrev/internal/pin"
)

// Trigger is an object whose change rolls a workload that may not even refer to it (confrev.io/restart-on).
type Trigger struct {
	// Source is a ConfigMap or Secret; or any other object, whose Kind then is "<resource>.<version>.<group>".
	pin.Source
	// Resource is the API's resource of an object that is not a ConfigMap or Secret.
	Resource schema.GroupVersionResource
	// Fields are the JSONPaths of the fields that matter. Without any, all but metadata and status does.
	Fields []string
}

// IsSource tells whether the trigger is a ConfigMap or Secret.
func (t Trigger) IsSource() bool { return t.Resource.Empty() }

var triggerForm = regexp.MustCompile(`^([a-z][a-z0-9-]*)\.(v[a-z0-9]+)(?:\.([a-z0-9.-]*))?/([^/{}=@,\s]+)$`)

// ParseRestartOn reads the annotation: a list of configmap/NAME, secret/NAME and <resource>.<version>.<group>/NAME, the last
// with a JSONPath behind it if only one field matters: "persistentvolumeclaims.v1/data{.spec.volumeName}". With an error
// it gives what it could read.
func ParseRestartOn(text string) ([]Trigger, error) {
	var triggers []Trigger
	var problems []error
	for _, item := range splitOutsideBraces(text) {
		trigger, err := parseTrigger(item)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		same := slices.IndexFunc(triggers, func(t Trigger) bool { return t.Source == trigger.Source })
		if same < 0 {
			triggers = append(triggers, trigger)
			continue
		}
		triggers[same].Fields = mergeFields(triggers[same].Fields, trigger.Fields)
	}
	return triggers, errors.Join(problems...)
}

// mergeFields gives the fields that matter when an object is named twice. Named once without a field, all of it does.
func mergeFields(a, b []string) []string {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	merged := slices.Concat(a, b)
	slices.Sort(merged)
	return slices.Compact(merged)
}

func parseTrigger(item string) (Trigger, error) {
	object, field, hasField := strings.Cut(item, "{")
	object = strings.TrimSpace(object)
	if source, err := pin.ParseSource(object); err == nil && !hasField {
		return Trigger{Source: source}, nil
	}
	match := triggerForm.FindStringSubmatch(object)
	if match == nil {
		return Trigger{}, fmt.Errorf(
			"%q is not an object: write configmap/NAME, secret/NAME or RESOURCE.VERSION.GROUP/NAME, such as persistentvolumeclaims.v1/data", item)
	}
	resource := schema.GroupVersionResource{Resource: match[1], Version: match[2], Group: match[3]}
	if kind, ok := sourceResources[resource]; ok && !hasField {
		return Trigger{Source: pin.Source{Kind: kind, Name: match[4]}}, nil
	}
	if _, ok := sourceResources[resource]; ok {
		return Trigger{}, fmt.Errorf("%q: a ConfigMap or Secret is compared as a whole, not by a field", item)
	}
	trigger := Trigger{Resource: resource, Source: pin.Source{Kind: kindOf(resource), Name: match[4]}}
	if hasField {
		expression := "{" + field
		if err := jsonpath.New("field").Parse(expression); err != nil {
			return Trigger{}, fmt.Errorf("%q: %q is not a JSONPath such as {.spec.volumeName}: %w", item, expression, err)
		}
		trigger.Fields = []string{expression}
	}
	return trigger, nil
}

// sourceResources are the sources in the form of any other resource.
var sourceResources = map[schema.GroupVersionResource]pin.Kind{
	{Version: "v1", Resource: "configmaps"}: pin.ConfigMap,
	{Version: "v1", Resource: "secrets"}:    pin.Secret,
}

// kindOf gives the kind under which a trigger's hash is written: "persistentvolumeclaims.v1".
func kindOf(resource schema.GroupVersionResource) pin.Kind {
	text := resource.Resource + "." + resource.Version
	if resource.Group != "" {
		text += "." + resource.Group
	}
	return pin.Kind(text)
}

// splitOutsideBraces splits at the commas that are not within a JSONPath.
func splitOutsideBraces(text string) []string {
	var items []string
	depth, begin := 0, 0
	add := func(end int) {
		if item := strings.TrimSpace(text[begin:end]); item != "" {
			items = append(items, item)
		}
		begin = end + 1
	}
	for i, r := range text {
		switch {
		case r == '{':
			depth++
		case r == '}':
			depth--
		case r == ',' && depth == 0:
			add(i)
		}
	}
	if begin <= len(text) {
		add(len(text))
	}
	return items
}
