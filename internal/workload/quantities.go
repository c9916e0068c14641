package workload

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// quantities says where something that is decoded from JSON has quantities: it is one itself, or some fields of an object have some, or the items of a list
// or of a map. It is nil for what has none.
type quantities struct {
	is     bool
	fields map[string]*quantities
	items  *quantities
}

// inTemplates says where pod templates have quantities.
var inTemplates = quantitiesIn(reflect.TypeFor[corev1.PodTemplateSpec]())

func quantitiesIn(t reflect.Type) *quantities {
	if t == reflect.TypeFor[resource.Quantity]() {
		return &quantities{is: true}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return quantitiesIn(t.Elem())
	case reflect.Slice, reflect.Map:
		if items := quantitiesIn(t.Elem()); items != nil {
			return &quantities{items: items}
		}
	case reflect.Struct:
		fields := map[string]*quantities{}
		for field := range t.Fields() {
			found := quantitiesIn(field.Type)
			if found == nil {
				continue
			}
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
				fields[name] = found
			} else {
				// Its fields are those of the struct that it is in.
				maps.Copy(fields, found.fields)
			}
		}
		if len(fields) > 0 {
			return &quantities{fields: fields}
		}
	}
	return nil
}

// hard reports whether a value has a quantity that takes long to read.
func (q *quantities) hard(value any) bool {
	switch v := value.(type) {
	case string:
		return q.is && hardQuantity(v)
	case []any:
		return q.items != nil && slices.ContainsFunc(v, q.items.hard)
	case map[string]any:
		for name, value := range v {
			in := q.items
			if q.fields != nil {
				in = q.fields[name]
			}
			if in != nil && in.hard(value) {
				return true
			}
		}
	}
	return false
}

const (
	// longestQuantity is the length of the longest quantity that is read, in characters: a million digits take seconds.
	longestQuantity = 100
	// longestExponent is how many digits its exponent may have. To round 1e-99999999, a power of ten with as many digits is computed, which takes a minute.
	longestExponent = 3
)

func hardQuantity(text string) bool {
	_, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	return len(text) > longestQuantity || len(strings.TrimLeft(exponent, "+-0")) > longestExponent
}
