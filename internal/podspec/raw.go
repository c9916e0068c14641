package podspec

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"confrev.io/confrev/internal/pin"
)

// Raw is a pod spec in JSON that anyone may have written. Decoded as a corev1.PodSpec, it would take as much memory as its author likes:
// a container of 3 bytes ("{},") takes 408, and to round the quantity 1e-999999999, a power of ten with as many digits is computed.
type Raw struct{ spec []byte }

// UnmarshalJSON keeps a copy of the spec, which is valid JSON.
func (r *Raw) UnmarshalJSON(spec []byte) error {
	if !bytes.HasPrefix(spec, []byte("{")) && string(spec) != "null" {
		return errors.New("the spec is not an object")
	}
	r.spec = bytes.Clone(spec)
	return nil
}

// maxResolutions is the length of the longest result of Raw.Resolve: twice what a pod with the most references needs, because other
// webhooks may have added some.
const maxResolutions = 2 * 2 * MaxReferences

// Resolve returns what the function Resolve returns for the decoded spec, or an error if that is too much. It changes nothing.
func (r Raw) Resolve(pins pin.Set) ([]Resolution, error) {
	if len(pins) == 0 {
		return nil, nil
	}
	all := newResolver(pins)
	rawWalk(func(ref reference) {
		if len(all.resolved) <= maxResolutions {
			all.visit(ref)
		}
	}).in(rawSpec, make([]byte, 0, 256), r.spec)
	if len(all.resolved) > maxResolutions {
		return nil, fmt.Errorf("too many references to pinned sources: a pod may have %d", MaxReferences)
	}
	return all.resolved, nil
}

// rawPlace is a field of a pod spec that has references, or is one.
type rawPlace struct {
	// list is true for a list of objects, and false for an object.
	list   bool
	fields map[string]*rawPlace
	// kind is that of the source, if it is a reference, and name is the reference's field with the source's name.
	kind pin.Kind
	name string
	// keyed is true if the reference is to one key.
	keyed bool
}

// walk visits the same places, and a test compares the two.
var (
	rawConfigMap  = &rawPlace{kind: pin.ConfigMap, name: "name"}
	rawSecret     = &rawPlace{kind: pin.Secret, name: "name"}
	rawContainers = &rawPlace{list: true, fields: map[string]*rawPlace{
		"envFrom": {list: true, fields: map[string]*rawPlace{"configMapRef": rawConfigMap, "secretRef": rawSecret}},
		"env": {list: true, fields: map[string]*rawPlace{"valueFrom": {fields: map[string]*rawPlace{
			"configMapKeyRef": {kind: pin.ConfigMap, name: "name", keyed: true},
			"secretKeyRef":    {kind: pin.Secret, name: "name", keyed: true},
		}}}},
	}}
	rawSpec = &rawPlace{fields: map[string]*rawPlace{
		"volumes": {list: true, fields: map[string]*rawPlace{
			"configMap": rawConfigMap,
			"secret":    {kind: pin.Secret, name: "secretName"},
			"projected": {fields: map[string]*rawPlace{
				"sources": {list: true, fields: map[string]*rawPlace{"configMap": rawConfigMap, "secret": rawSecret}},
			}},
		}},
		"initContainers": rawContainers,
		"containers":     rawContainers,
	}}
)

// rawWalk visits references. All paths share one buffer, because most places have no reference, and should take no memory.
type rawWalk func(reference)

func (visit rawWalk) in(place *rawPlace, path, value []byte) {
	if !place.list {
		visit.object(place, path, value)
		return
	}
	rawParts(value, func(i int, name, element []byte) {
		if name == nil {
			visit.object(place, strconv.AppendInt(append(path, '/'), int64(i), 10), element)
		}
	})
}

func (visit rawWalk) object(place *rawPlace, path, value []byte) {
	if place.kind != "" {
		visit.reference(place, path, value)
		return
	}
	rawParts(value, func(_ int, name, field []byte) {
		if next := place.fields[string(name)]; next != nil {
			visit.in(next, append(append(path, '/'), name...), field)
		}
	})
}

func (visit rawWalk) reference(place *rawPlace, path, value []byte) {
	var name string
	var optional *bool
	var keys []string
	if place.keyed {
		keys = []string{}
	}
	rawParts(value, func(_ int, field, value []byte) {
		switch string(field) {
		case place.name:
			// The names of pinned sources have no characters that JSON escapes.
			if value[0] == '"' {
				name = string(value[1 : len(value)-1])
			}
		case "optional":
			optional = new(string(value) == "true")
		case "items":
			// Which keys they are makes no difference to admission.
			rawParts(value, func(int, []byte, []byte) { keys = []string{} })
		}
	})
	if name != "" {
		visit(newReference(place.kind, &name, string(path)+"/"+place.name, keys, &optional))
	}
}

// rawParts visits the elements of a list, with nil for a name, or the fields of an object, with names as they are in JSON. The JSON is
// valid, and has no space around it.
func rawParts(whole []byte, visit func(i int, name, value []byte)) {
	depth, begin, i := 0, 0, 0
	for at := 0; at < len(whole); at++ {
		switch c := whole[at]; {
		case c == '"':
			at += rawString(whole[at:])
		case c == '[' || c == '{':
			if depth++; depth == 1 {
				begin = at + 1
			}
		case (c == ']' || c == '}') && depth > 1:
			depth--
		case (c == ']' || c == '}' || c == ',') && depth == 1:
			part := bytes.TrimSpace(whole[begin:at])
			if whole[0] == '[' && len(part) > 0 {
				visit(i, nil, part)
			} else if len(part) > 0 {
				name, value := rawField(part)
				visit(i, name, value)
			}
			begin = at + 1
			i++
		}
	}
}

// rawField returns the name and the value of an object's field.
func rawField(part []byte) (name, value []byte) {
	end := rawString(part)
	_, value, _ = bytes.Cut(part[end:], []byte(":"))
	return part[1:end], bytes.TrimSpace(value)
}

// rawString returns the index of the quote that ends the string at the beginning of text.
func rawString(text []byte) int {
	for at := 1; ; at++ {
		switch text[at] {
		case '\\':
			at++
		case '"':
			return at
		}
	}
}
