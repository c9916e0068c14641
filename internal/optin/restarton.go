package optin

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/quote"
)

// The limits of one annotation, in addition to those of all lists.
const (
	maxTriggers = 32
	maxFields   = 16
)

// Trigger is an object whose changes roll a workload that may not even refer to it (confrev.io/restart-on).
type Trigger struct {
	// Source is a ConfigMap or Secret, or any other object, whose Kind is then "<resource>.<version>.<group>".
	pin.Source
	// Resource is the API resource of an object that is not a ConfigMap or Secret.
	Resource schema.GroupVersionResource
	// Fields are those whose changes count. If there are none, everything except metadata and status counts.
	Fields []Field
}

// IsSource reports whether the trigger is a ConfigMap or Secret.
func (t Trigger) IsSource() bool { return t.Resource.Empty() }

// FieldsOf returns the fields of an object whose changes roll the workload. If there are none, all of it counts, except metadata and status.
func (c Config) FieldsOf(object pin.Source) []Field {
	at := slices.IndexFunc(c.RestartOn, func(t Trigger) bool { return t.Source == object })
	if at < 0 {
		return nil
	}
	return c.RestartOn[at].Fields
}

var triggerForm = regexp.MustCompile(`^([a-z][a-z0-9-]*)\.(v[a-z0-9]+)(?:\.([a-z0-9.-]*))?/([A-Za-z0-9][A-Za-z0-9._:-]{0,252})$`)

// ParseRestartOn reads the annotation: a list of configmap/NAME, secret/NAME and <resource>.<version>.<group>/NAME. The path of a
// field may follow the last form, if only this field counts: "persistentvolumeclaims.v1/data{.spec.volumeName}". Together with an
// error, ParseRestartOn returns the items that it could read, within the limits.
func ParseRestartOn(text string) ([]Trigger, error) {
	items := splitOutsideBraces(text, maxTriggers+1)
	var wrong problems
	if len(items) > maxTriggers {
		wrong.add(tooMany(maxTriggers))
		items = items[:maxTriggers]
	}
	var triggers []Trigger
	for _, item := range items {
		trigger, err := parseTrigger(item)
		if err == nil {
			triggers, err = merge(triggers, trigger)
		}
		if err != nil {
			wrong.add(err)
		}
	}
	return triggers, wrong.err()
}

// merge adds a trigger, or only its field if the object is already there.
func merge(triggers []Trigger, added Trigger) ([]Trigger, error) {
	at := slices.IndexFunc(triggers, func(t Trigger) bool { return t.Source == added.Source })
	if at < 0 {
		return append(triggers, added), nil
	}
	fields := mergeFields(triggers[at].Fields, added.Fields)
	if len(fields) > maxFields {
		return triggers, fmt.Errorf("%s has more than %d fields; the rest are ignored", quote.Text(added.String()), maxFields)
	}
	triggers[at].Fields = fields
	return triggers, nil
}

// mergeFields returns the fields that count when an object is listed twice. If one of the items has no field, everything counts.
func mergeFields(a, b []Field) []Field {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	merged := slices.Concat(a, b)
	slices.Sort(merged)
	return slices.Compact(merged)
}

func parseTrigger(item string) (Trigger, error) {
	if err := checkLength(item); err != nil {
		return Trigger{}, err
	}
	object, field, hasField := strings.Cut(item, "{")
	object = strings.TrimSpace(object)
	if source, err := pin.ParseSource(object); err == nil && !hasField {
		return Trigger{Source: source}, nil
	}
	match := triggerForm.FindStringSubmatch(object)
	if match == nil {
		return Trigger{}, fmt.Errorf(
			"%s is not an object: write configmap/NAME, secret/NAME or RESOURCE.VERSION.GROUP/NAME, such as persistentvolumeclaims.v1/data",
			quote.Text(item))
	}
	resource := schema.GroupVersionResource{Resource: match[1], Version: match[2], Group: match[3]}
	kind, isSource := sourceResources[resource]
	switch {
	case isSource && hasField:
		return Trigger{}, fmt.Errorf("%s: a ConfigMap or Secret is compared as a whole, not by a field", quote.Text(item))
	case isSource:
		return Trigger{Source: pin.Source{Kind: kind, Name: match[4]}}, nil
	}
	trigger := Trigger{Resource: resource, Source: pin.Source{Kind: kindOf(resource), Name: match[4]}}
	if hasField {
		path, err := ParseField("{" + field)
		if err != nil {
			return Trigger{}, fmt.Errorf("%s: %w", quote.Text(item), err)
		}
		trigger.Fields = []Field{path}
	}
	return trigger, nil
}

var sourceResources = map[schema.GroupVersionResource]pin.Kind{
	{Version: "v1", Resource: "configmaps"}: pin.ConfigMap,
	{Version: "v1", Resource: "secrets"}:    pin.Secret,
}

// kindOf returns the kind under which a trigger's hash is written: "persistentvolumeclaims.v1".
func kindOf(resource schema.GroupVersionResource) pin.Kind {
	text := resource.Resource + "." + resource.Version
	if resource.Group != "" {
		text += "." + resource.Group
	}
	return pin.Kind(text)
}

// splitOutsideBraces splits at commas, except those within the path of a field, and returns the first items, at most so many.
func splitOutsideBraces(text string, most int) []string {
	var items []string
	depth, begin := 0, 0
	add := func(end int) {
		if item := strings.TrimSpace(text[begin:end]); item != "" && len(items) < most {
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
	add(len(text))
	return items
}

// Field is the path of one field of an object, as users write it: "{.spec.volumeName}". It is a plain path of field names and
// list indexes, and leads to at most one value. JSONPath can do more, which is dangerous here: the errors of filters repeat what
// they read, and unions multiply.
type Field string

const (
	maxFieldText = 512
	maxSteps     = 32
)

var (
	// fieldForm is a path of .name, ['name'] and [0]. A quoted name has no character that would end an item of the annotation.
	fieldForm = regexp.MustCompile(`^\{(?:\.[A-Za-z0-9_-]+|\['[^'"\\{}\[\],]+'\]|\["[^'"\\{}\[\],]+"\]|\[[0-9]{1,4}\])+\}$`)
	stepForm  = regexp.MustCompile(`\.([A-Za-z0-9_-]+)|\['([^']+)'\]|\["([^"]+)"\]|\[([0-9]+)\]`)
)

// errField explains what the path of a field looks like.
var errField = errors.New("want the path of one field, such as {.spec.volumeName}, {.spec['a.b']} or {.spec.list[0]}")

// ParseField reads the path of a field. A path must not lead into metadata: other tools keep copies of other objects' content
// there, and parts of it change all the time.
func ParseField(text string) (Field, error) {
	if len(text) > maxFieldText {
		return "", fmt.Errorf("the path of a field is longer than %d bytes", maxFieldText)
	}
	if !fieldForm.MatchString(text) {
		return "", errField
	}
	steps := Field(text).steps()
	if len(steps) > maxSteps {
		return "", fmt.Errorf("the path of a field has more than %d steps", maxSteps)
	}
	if steps[0].isIndex {
		return "", errField
	}
	if steps[0].name == "metadata" {
		return "", errors.New("fields of metadata cannot be followed; use a field of another part, such as {.spec.volumeName}")
	}
	return Field(text), nil
}

// step is one step of a path: a name, or an index of a list.
type step struct {
	name    string
	index   int
	isIndex bool
}

func (f Field) steps() []step {
	var steps []step
	for _, match := range stepForm.FindAllStringSubmatch(string(f), -1) {
		if match[4] != "" {
			// fieldForm limits the number of digits.
			index, _ := strconv.Atoi(match[4])
			steps = append(steps, step{index: index, isIndex: true})
			continue
		}
		steps = append(steps, step{name: match[1] + match[2] + match[3]})
	}
	return steps
}

// Of returns the field's value in an object, as decoded from JSON, and whether the object has the field.
func (f Field) Of(object map[string]any) (value any, found bool) {
	value = object
	for _, s := range f.steps() {
		if value, found = s.of(value); !found {
			return nil, false
		}
	}
	return value, found
}

func (s step) of(value any) (any, bool) {
	if s.isIndex {
		list, _ := value.([]any)
		if s.index >= len(list) {
			return nil, false
		}
		return list[s.index], true
	}
	fields, _ := value.(map[string]any)
	value, found := fields[s.name]
	return value, found
}
