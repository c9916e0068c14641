package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/test/gen"
)

func TestTrackSelects(t *testing.T) {
	const (
		uses = "configmap/app configmap/kube-root-ca.crt configmap/web secret/db"
		both = "configmap secret"
	)
	tests := map[string]struct {
		text, enabled    string
		selected, unused string
		problem          string // part of the error's text; "" for no error
		off              bool   // nothing is tracked at all
	}{
		"no annotation":                        {text: "", enabled: both, off: true},
		"only spaces":                          {text: "  ", enabled: both, off: true},
		"none":                                 {text: "none", enabled: both, off: true},
		"all":                                  {text: "all", enabled: both, selected: "configmap/app configmap/web secret/db"},
		"all, with spaces":                     {text: " all ", enabled: both, selected: "configmap/app configmap/web secret/db"},
		"all, but Secrets are not enabled":     {text: "all", enabled: "configmap", selected: "configmap/app configmap/web"},
		"one source":                           {text: "configmap/app", enabled: both, selected: "configmap/app"},
		"two sources":                          {text: "secret/db,configmap/app", enabled: both, selected: "configmap/app secret/db"},
		"two sources, with spaces":             {text: " secret/db , configmap/app ", enabled: both, selected: "configmap/app secret/db"},
		"a source twice":                       {text: "configmap/app,configmap/app", enabled: both, selected: "configmap/app"},
		"a Secret that is not enabled":         {text: "configmap/app,secret/db", enabled: "configmap", selected: "configmap/app"},
		"one that nothing refers to":           {text: "configmap/app,configmap/gone", enabled: both, selected: "configmap/app", unused: "configmap/gone"},
		"the name of one of the other kind":    {text: "secret/app", enabled: both, unused: "secret/app"},
		"one that is never copied (rule 10)":   {text: "configmap/kube-root-ca.crt", enabled: both},
		"a slip beside a source":               {text: "configmap/app,oops", enabled: both, selected: "configmap/app", problem: `"oops"`},
		"two slips are both named":             {text: "oops,ConfigMap/app", enabled: both, problem: `"ConfigMap/app"`, off: true},
		"a comma at the end":                   {text: "configmap/app,", enabled: both, selected: "configmap/app", problem: `""`},
		"all in a list is a slip":              {text: "all,configmap/app", enabled: both, selected: "configmap/app", problem: `"all"`},
		"ALL is a slip":                        {text: "ALL", enabled: both, problem: `"ALL"`, off: true},
		"true is a slip, and tracks nothing":   {text: "true", enabled: both, problem: `"all", "none" or a list`, off: true},
		"the plural is a slip":                 {text: "configmaps/app", enabled: both, problem: "configmap/NAME", off: true},
		"semicolons are a slip":                {text: "configmap/app;secret/db", enabled: both, problem: "configmap/app;secret/db", off: true},
		"all, but nothing is enabled":          {text: "all", enabled: ""},
		"a Secret alone that is not enabled":   {text: "secret/db", enabled: "configmap"},
		"unused ones are said for every slip ": {text: "oops,configmap/gone", enabled: both, unused: "configmap/gone", problem: "oops"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			track, err := plan.ParseTrack(test.text)
			if (err != nil) != (test.problem != "") || (err != nil && !strings.Contains(err.Error(), test.problem)) {
				t.Errorf("error %v, want one about %q", err, test.problem)
			}
			if track.Enabled() == test.off {
				t.Errorf("Enabled = %v", track.Enabled())
			}
			enabled := func(kind pin.Kind) bool { return strings.Contains(test.enabled, string(kind)) }
			selected, unused := track.Select(usesOf(uses), enabled)
			if diff := cmp.Diff(usesOf(test.selected), selected); diff != "" {
				t.Errorf("selected (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(sourcesOf(test.unused), unused); diff != "" {
				t.Errorf("unused (-want +got):\n%s", diff)
			}
		})
	}
}

func sourcesOf(texts string) []pin.Source {
	var sources []pin.Source
	for text := range strings.FieldsSeq(texts) {
		sources = append(sources, gen.Source(text))
	}
	return sources
}

func usesOf(texts string) []podspec.Use {
	var uses []podspec.Use
	for _, source := range sourcesOf(texts) {
		uses = append(uses, podspec.Use{Source: source, All: true})
	}
	return uses
}

func TestListsTellsWhichKindsAreNamed(t *testing.T) {
	tests := map[string]struct{ configMaps, secrets bool }{
		"":                        {},
		"all":                     {},
		"none":                    {},
		"configmap/app":           {configMaps: true},
		"secret/db":               {secrets: true},
		"secret/db,configmap/app": {configMaps: true, secrets: true},
	}
	for text, want := range tests {
		track, err := plan.ParseTrack(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := track.Lists(pin.ConfigMap); got != want.configMaps {
			t.Errorf("%q lists ConfigMaps: %v", text, got)
		}
		if got := track.Lists(pin.Secret); got != want.secrets {
			t.Errorf("%q lists Secrets: %v", text, got)
		}
	}
}

// Rule 10.
func TestNeverCopied(t *testing.T) {
	for text, want := range map[string]bool{
		"configmap/kube-root-ca.crt":         true,
		"configmap/openshift-service-ca.crt": true,
		"configmap/istio-ca-root-cert":       true,
		"configmap/app":                      false,
		"configmap/kube-root-ca.crt2":        false,
		"secret/kube-root-ca.crt":            false,
	} {
		if got := plan.NeverCopied(gen.Source(text)); got != want {
			t.Errorf("NeverCopied(%s) = %v", text, got)
		}
	}
}
