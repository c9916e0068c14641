package workload

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// whyNotRead returns why a pod template is not decoded from JSON, "" if it is. Anyone who may create a custom resource chooses what is in it, and one of a
// megabyte could keep all of confrev busy, or take all of its memory. The API server checks pod templates only in kinds of its own.
func whyNotRead(template map[string]any) string {
	switch {
	case inTemplates.hard(template):
		return fmt.Sprintf("has a quantity of more than %d characters, or with an exponent of more than %d digits: write it shorter, such as 100m or 1Gi",
			longestQuantity, longestExponent)
	case countItems(template, 0) > mostItems:
		return fmt.Sprintf("has more than %d items in its lists", mostItems)
	}
	return ""
}

// mostItems is how many items the lists of a template may have in all. One takes three characters, and, if it is a container, a thousand bytes once it is
// decoded.
const mostItems = 10_000

// countItems adds the number of items of all lists in a value, or as many of them as are too many.
func countItems(value any, counted int) int {
	switch v := value.(type) {
	case []any:
		counted += len(v)
		for i := 0; i < len(v) && counted <= mostItems; i++ {
			counted = countItems(v[i], counted)
		}
	case map[string]any:
		for _, field := range v {
			counted = countItems(field, counted)
		}
	}
	return counted
}

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
