package optin

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
)

// Rule 21.5: which settings of a request count that goes back to an earlier template, and which notes.
func TestWithSettings(t *testing.T) {
	type annotations = map[string]string
	tests := map[string]struct {
		request, old annotations
		restored     []annotations
		want         annotations
	}{
		"one that it restores":             {annotations{keys.Mode: "a"}, annotations{keys.Mode: "b"}, []annotations{{keys.Mode: "a"}}, annotations{keys.Mode: "b"}},
		"one that it adds by that":         {annotations{keys.Mode: "a"}, annotations{}, []annotations{{keys.Mode: "a"}}, annotations{}},
		"one that it removes by that":      {annotations{}, annotations{keys.Mode: "b"}, []annotations{{}}, annotations{keys.Mode: "b"}},
		"an empty one is not an absent":    {annotations{keys.Mode: ""}, annotations{keys.Mode: "b"}, []annotations{{}}, annotations{keys.Mode: ""}},
		"another":                          {annotations{keys.Mode: "c"}, annotations{keys.Mode: "b"}, []annotations{{keys.Mode: "a"}}, annotations{keys.Mode: "c"}},
		"one that it does not restore":     {annotations{}, annotations{keys.Mode: "b"}, []annotations{{keys.Mode: "a"}}, annotations{}},
		"each by itself":                   {annotations{keys.Mode: "a", keys.Track: "x"}, annotations{keys.Mode: "b", keys.Track: "y"}, []annotations{{keys.Mode: "a", keys.Track: "z"}}, annotations{keys.Mode: "b", keys.Track: "x"}},
		"of the second that it may be":     {annotations{keys.Mode: "a"}, annotations{keys.Mode: "b"}, []annotations{{}, {keys.Mode: "a"}}, annotations{keys.Mode: "b"}},
		"of nothing that is restored":      {annotations{keys.Mode: "a"}, annotations{keys.Mode: "b"}, nil, annotations{keys.Mode: "a"}},
		"a note":                           {annotations{keys.Held: "a"}, annotations{keys.Held: "b"}, nil, annotations{keys.Held: "b"}},
		"a note that it lacks":             {annotations{}, annotations{keys.Held: "b"}, []annotations{{keys.Held: "a"}}, annotations{keys.Held: "b"}},
		"a note that came with a template": {annotations{keys.Held: "a"}, annotations{}, []annotations{{keys.Held: "a"}}, annotations{}},
		"what is not confrev's":            {annotations{"x": "a"}, annotations{"x": "b"}, []annotations{{"x": "a"}}, annotations{"x": "a"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object := func(all annotations) *metav1.PartialObjectMetadata {
				return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: all}}
			}
			obj := object(test.request)
			if diff := cmp.Diff(test.want, WithSettings(obj, object(test.old), test.restored...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.request, obj.Annotations); diff != "" {
				t.Errorf("it changed the request (-before +after):\n%s", diff)
			}
		})
	}
}

// What confrev notes in a request is no setting that the request changes.
func TestSameSettings(t *testing.T) {
	for name, test := range map[string]struct {
		one, other map[string]string
		same       bool
	}{
		"none":                  {nil, map[string]string{}, true},
		"what is not confrev's": {map[string]string{"x": "a"}, nil, true},
		"notes":                 {map[string]string{keys.Held: "a"}, nil, true},
		"the same":              {map[string]string{keys.Mode: "a"}, map[string]string{keys.Mode: "a", "x": "a"}, true},
		"another value":         {map[string]string{keys.Mode: "a"}, map[string]string{keys.Mode: "b"}, false},
		"one more":              {map[string]string{keys.Mode: "a"}, nil, false},
	} {
		object := func(all map[string]string) *metav1.PartialObjectMetadata {
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: all}}
		}
		if same := SameSettings(object(test.one), object(test.other)); same != test.same {
			t.Errorf("%s: %v", name, same)
		}
	}
}
