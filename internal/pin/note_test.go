package pin_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/gen"
)

func TestNotesAreReadAsTheyAreWritten(t *testing.T) {
	app, claim := gen.Source("configmap/app"), pin.Source{Kind: "persistentvolumeclaims.v1", Name: "data"}
	a, b := pin.Pin{Revision: "app-a", Number: 1}, pin.Pin{Revision: "app-b", Number: 2}
	tests := map[string]struct {
		notes pin.Notes
		text  string
	}{
		"none":                     {pin.Notes{}, ""},
		"one":                      {pin.Notes{app: {From: b, On: a}}, "configmap/app=app-b@2;on=app-a@1"},
		"one with a digest":        {pin.Notes{app: {From: b, On: a, Keys: "k3"}}, "configmap/app=app-b@2;on=app-a@1;keys=k3"},
		"one that ended":           {pin.Notes{app: {From: b, On: a, Ended: true}}, "configmap/app=app-b@2;on=app-a@1;ended"},
		"one with all that it has": {pin.Notes{app: {b, a, "k3", 2, 7, true}}, "configmap/app=app-b@2;on=app-a@1;keys=k3;stop=2@7;ended"},
		"one by confrev":           {pin.Notes{app: {From: b, On: a, Stop: 1}}, "configmap/app=app-b@2;on=app-a@1;stop=1@0"},
		"several, sorted": {
			pin.Notes{claim: {From: b, On: a}, app: {From: b, On: a}},
			"configmap/app=app-b@2;on=app-a@1,persistentvolumeclaims.v1/data=app-b@2;on=app-a@1",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.notes.String(); got != test.text {
				t.Errorf("written %q, want %q", got, test.text)
			}
			got, err := pin.ParseNotes(test.text)
			if diff := cmp.Diff(test.notes, got); diff != "" || err != nil {
				t.Errorf("%v; read (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestNotesThatAreMalformedAreNone(t *testing.T) {
	for name, text := range map[string]string{
		"a pin":                   "configmap/app=app-b@2",
		"without a number":        "configmap/app=app-b@2;on=app-a",
		"in another order":        "configmap/app=app-b@2;on=app-a@1;ended;keys=k3",
		"a stop without an order": "configmap/app=app-b@2;on=app-a@1;stop=1",
		"no stop":                 "configmap/app=app-b@2;on=app-a@1;stop=0@1",
		"twice":                   "configmap/app=app-b@2;on=app-a@1,configmap/app=app-c@3;on=app-a@1",
		"half of it":              "configmap/app=app-b@2;on=app-a@1,",
		"a number too long":       "configmap/app=app-b@2;on=app-a@1000000000000000",
		"an order too high":       "configmap/app=app-b@2;on=app-a@1;stop=1@9999999999999999999",
	} {
		if got, err := pin.ParseNotes(text); err == nil || len(got) > 0 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// Rule 4: a note is about one pin.
func TestOnlyNotesAboutThePinsHold(t *testing.T) {
	notes, err := pin.ParseNotes(strings.Join([]string{
		"configmap/a=a-b@2;on=a-a@1", "configmap/b=b-b@2;on=b-a@1", "configmap/c=c-b@2;on=c-a@1;ended", "configmap/d=d-b@2;on=d-a@1",
	}, ","))
	if err != nil {
		t.Fatal(err)
	}
	if got := notes.Holding(gen.Pins("configmap/a=a-a@1,configmap/b=b-a@3,configmap/c=c-a@1")).String(); got != "configmap/a=a-b@2" {
		t.Errorf("held from %s", got)
	}
}
