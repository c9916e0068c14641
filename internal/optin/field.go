package optin

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

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
