package session

import (
	"testing"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/test/gen"
)

// Rule 5: two writers may have given one number to two contents.
func TestNumbered(t *testing.T) {
	revisions := []plan.Revision{{Name: "app-x", Number: 3}, {Name: "app-a", Number: 1}, {Name: "app-c", Number: 3}}
	for name, test := range map[string]struct {
		revisions []plan.Revision
		number    int64
		want      pin.Pin
		err       string
	}{
		"one has it":           {revisions, 1, pin.Pin{Revision: "app-a", Number: 1}, ""},
		"none has it":          {revisions, 2, pin.Pin{}, "configmap/app has no revision 2: there is 1, 3"},
		"two have it":          {revisions, 3, pin.Pin{}, "configmap/app has several revisions 3: app-c, app-x"},
		"there is none at all": {nil, 1, pin.Pin{}, "configmap/app has no revision 1: there is none"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Numbered(gen.Source("configmap/app"), test.revisions, test.number)
			if got != test.want || (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}
