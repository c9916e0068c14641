package metadata

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gomodules.xyz/jsonpatch/v2"
	evanphx "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
)

func TestSetAnnotationsTouchesItsKeysOnly(t *testing.T) {
	other := map[string]string{"other": "x"}
	has := map[string]string{"other": "x", keys.Pins: "old"}
	both := map[string]string{"other": "x", keys.Pins: "old", keys.Hashes: "h"}
	alone := map[string]string{keys.Pins: "old"}
	labelled := metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}
	of := func(annotations map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "web", Annotations: annotations}
	}
	pins := func(value string) map[string]string { return map[string]string{keys.Pins: value} }
	const at = "/a/annotations/confrev.io~1"
	tests := map[string]struct {
		existing metav1.ObjectMeta
		values   map[string]string
		want     []jsonpatch.Operation
	}{
		"a value among others":                    {of(other), pins("v"), []jsonpatch.Operation{{Operation: "add", Path: at + "pins", Value: "v"}}},
		"a value that takes another's place":      {of(has), pins("v"), []jsonpatch.Operation{{Operation: "add", Path: at + "pins", Value: "v"}}},
		"a value that is there already":           {of(has), pins("old"), nil},
		"a value where there is no map":           {labelled, pins("v"), []jsonpatch.Operation{{Operation: "add", Path: "/a/annotations", Value: pins("v")}}},
		"a value in an empty map":                 {of(map[string]string{}), pins("v"), []jsonpatch.Operation{{Operation: "add", Path: "/a/annotations", Value: pins("v")}}},
		"a value where there is no metadata":      {metav1.ObjectMeta{}, pins("v"), []jsonpatch.Operation{{Operation: "add", Path: "/a", Value: map[string]any{"annotations": pins("v")}}}},
		"nothing takes a value's place":           {of(has), pins(""), []jsonpatch.Operation{{Operation: "remove", Path: at + "pins"}}},
		"nothing takes the place of the only one": {of(alone), pins(""), []jsonpatch.Operation{{Operation: "remove", Path: at + "pins"}}},
		"nothing where there is nothing":          {of(other), pins(""), nil},
		"nothing where there is no map at all":    {labelled, pins(""), nil},
		"nothing where there is no metadata":      {metav1.ObjectMeta{}, pins(""), nil},
		"nothing where there is an empty value":   {of(pins("")), pins(""), nil},
		"two values where there is no map":        {labelled, map[string]string{keys.Pins: "v", keys.Hashes: "w"}, []jsonpatch.Operation{{Operation: "add", Path: "/a/annotations", Value: map[string]string{keys.Pins: "v", keys.Hashes: "w"}}}},
		"two values where there is no metadata":   {metav1.ObjectMeta{}, map[string]string{keys.Pins: "v", keys.Hashes: "w"}, []jsonpatch.Operation{{Operation: "add", Path: "/a", Value: map[string]any{"annotations": map[string]string{keys.Pins: "v", keys.Hashes: "w"}}}}},
		"one of two values where there is none":   {labelled, map[string]string{keys.Pins: "v", keys.Hashes: ""}, []jsonpatch.Operation{{Operation: "add", Path: "/a/annotations", Value: pins("v")}}},
		"two values among others, sorted":         {of(other), map[string]string{keys.Pins: "v", keys.Hashes: "w"}, []jsonpatch.Operation{{Operation: "add", Path: at + "hashes", Value: "w"}, {Operation: "add", Path: at + "pins", Value: "v"}}},
		"one comes and the other goes":            {of(both), map[string]string{keys.Pins: "v", keys.Hashes: ""}, []jsonpatch.Operation{{Operation: "remove", Path: at + "hashes"}, {Operation: "add", Path: at + "pins", Value: "v"}}},
		"the only one goes and the other comes":   {of(alone), map[string]string{keys.Pins: "", keys.Hashes: "w"}, []jsonpatch.Operation{{Operation: "add", Path: at + "hashes", Value: "w"}, {Operation: "remove", Path: at + "pins"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := test.existing.DeepCopy()
			if diff := cmp.Diff(test.want, SetAnnotations("/a", &test.existing, test.values)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(*before, test.existing); diff != "" {
				t.Errorf("what was given was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// What is tested is what was read, also that there was nothing.
func TestSame(t *testing.T) {
	const own, other = keys.Track, keys.Mode
	for name, tt := range map[string]struct {
		read, now map[string]string
		same      bool
	}{
		"all is as it was":            {map[string]string{own: "all"}, map[string]string{own: "all"}, true},
		"what has other keys changed": {map[string]string{own: "all", "x": "1"}, map[string]string{own: "all", "x": "2", "y": "3"}, true},
		"a value changed":             {map[string]string{own: "all"}, map[string]string{own: "none"}, false},
		"a value went":                {map[string]string{own: "all", "x": "1"}, map[string]string{"x": "1"}, false},
		"a value came":                {map[string]string{own: "all"}, map[string]string{own: "all", other: "attach"}, false},
		"an empty value is not none":  {map[string]string{"x": "1"}, map[string]string{own: "", "x": "1"}, false},
		"all went":                    {map[string]string{own: "all"}, nil, false},
		"there is still nothing":      {nil, nil, true},
		"something is where was none": {nil, map[string]string{own: "all"}, false},
		"all others went":             {map[string]string{"x": "1"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			for what, ops := range map[string][]jsonpatch.Operation{
				"annotations": SameAnnotations(&metav1.ObjectMeta{Annotations: tt.read}, []string{own, other}),
				"labels":      SameLabels(&metav1.ObjectMeta{Labels: tt.read}, []string{own, other}),
			} {
				text, err := json.Marshal(ops)
				if err != nil {
					t.Fatal(err)
				}
				patch, err := evanphx.DecodePatch(text)
				if err != nil {
					t.Fatal(err)
				}
				object := map[string]any{"metadata": map[string]any{"name": "web"}}
				if tt.now != nil {
					object["metadata"].(map[string]any)[what] = tt.now
				}
				document, err := json.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := patch.Apply(document); (err == nil) != tt.same {
					t.Errorf("%s: %s of %s: %v", what, text, document, err)
				}
			}
		})
	}
}
