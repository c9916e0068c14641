package optin_test

import (
	gocmp "cmp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/test/gen"
)

func TestTrackSelects(t *testing.T) {
	const both = "configmap/app configmap/web secret/db"
	tests := map[string]struct {
		text, uses       string
		selected, unused string
		problem          string // part of the error's text; "" for no error
		off              bool   // nothing is tracked at all
	}{
		"no annotation":                        {text: "", uses: both, off: true},
		"only spaces":                          {text: "  ", uses: both, off: true},
		"none":                                 {text: "none", uses: both, off: true},
		"all":                                  {text: "all", uses: both, selected: both},
		"all, with spaces":                     {text: " all ", uses: both, selected: both},
		"all of nothing":                       {text: "all", uses: ""},
		"one source":                           {text: "configmap/app", uses: both, selected: "configmap/app"},
		"two sources":                          {text: "secret/db,configmap/app", uses: both, selected: "configmap/app secret/db"},
		"two sources, with spaces":             {text: " secret/db , configmap/app ", uses: both, selected: "configmap/app secret/db"},
		"a source twice":                       {text: "configmap/app,configmap/app", uses: both, selected: "configmap/app"},
		"one that nothing refers to":           {text: "configmap/app,configmap/gone", uses: both, selected: "configmap/app", unused: "configmap/gone"},
		"the name of one of the other kind":    {text: "secret/app", uses: both, unused: "secret/app"},
		"a slip next to a source":              {text: "configmap/app,oops", uses: both, selected: "configmap/app", problem: `"oops"`},
		"two slips are both named":             {text: "oops,ConfigMap/app", uses: both, problem: `"ConfigMap/app"`, off: true},
		"a comma at the end":                   {text: "configmap/app,", uses: both, selected: "configmap/app", problem: `""`},
		"all in a list is a slip":              {text: "all,configmap/app", uses: both, selected: "configmap/app", problem: `"all"`},
		"none in a list is a slip":             {text: "configmap/app,none", uses: both, selected: "configmap/app", problem: `"none"`},
		"ALL is a slip":                        {text: "ALL", uses: both, problem: `"ALL"`, off: true},
		"true is a slip, and tracks nothing":   {text: "true", uses: both, problem: `"all", "none" or a list`, off: true},
		"the plural is a slip":                 {text: "configmaps/app", uses: both, problem: "configmap/NAME", off: true},
		"semicolons are a slip":                {text: "configmap/app;secret/db", uses: both, problem: "configmap/app;secret/db", off: true},
		"unused ones are said for every slip ": {text: "oops,configmap/gone", uses: both, unused: "configmap/gone", problem: "oops"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			track, err := optin.ParseTrack(test.text)
			if (err != nil) != (test.problem != "") || (err != nil && !strings.Contains(err.Error(), test.problem)) {
				t.Errorf("error %v, want one about %q", err, test.problem)
			}
			if track.Enabled() == test.off {
				t.Errorf("Enabled = %v", track.Enabled())
			}
			selection := track.Select(usesOf(test.uses), true, traitsOf(nil))
			if diff := cmp.Diff(usesOf(test.selected), selection.Uses); diff != "" {
				t.Errorf("selected (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(sourcesOf(test.unused), selection.Unused); diff != "" {
				t.Errorf("unused (-want +got):\n%s", diff)
			}
		})
	}
}

// traitsOf returns the traits of sources of which only some have any.
func traitsOf(some map[string]optin.Traits) func(pin.Source) optin.Traits {
	return func(source pin.Source) optin.Traits {
		traits := some[source.String()]
		if traits.Policy == (optin.Policy{}) {
			traits.Policy = optin.PolicyRevision
		}
		return traits
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
		track, err := optin.ParseTrack(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := track.ListsKind(pin.ConfigMap); got != want.configMaps {
			t.Errorf("%q lists ConfigMaps: %v", text, got)
		}
		if got := track.ListsKind(pin.Secret); got != want.secrets {
			t.Errorf("%q lists Secrets: %v", text, got)
		}
	}
}

// Rules 6 and 10, and the policies.
func TestSelectHeedsWhatSourcesSayOfThemselves(t *testing.T) {
	live, ignore := optin.Traits{Policy: optin.PolicyLive}, optin.Traits{Policy: optin.PolicyIgnore}
	never := optin.Traits{Never: "because"}
	neverOwned := optin.Traits{Never: "because", Owned: true}
	const both = "configmap/app configmap/web"
	tests := map[string]struct {
		track          string
		about          optin.Traits // of configmap/app
		frozen, thawed string       // what is selected when sources are copied, and when they are not
		refused        bool         // in any mode
		refusedThawed  bool         // only when sources are not copied: else they are not even looked at
		owners         string       // annotation confrev.io/owners
		ownerIgnored   bool         // the owned source is not tracked for lack of consent
	}{
		"as usual":                       {track: "all", frozen: both, thawed: both},
		"live":                           {track: "all", about: live, frozen: "configmap/web", thawed: both},
		"live, though it is listed":      {track: "configmap/app", about: live, thawed: "configmap/app"},
		"ignored":                        {track: "all", about: ignore, frozen: "configmap/web", thawed: "configmap/web"},
		"ignored, though it is listed":   {track: "configmap/app", about: ignore},
		"ignored, though it is owned":    {owners: "true", about: optin.Traits{Policy: optin.PolicyIgnore, Owned: true}},
		"never copied":                   {track: "all", about: never, frozen: "configmap/web", thawed: "configmap/web"},
		"never copied, though listed":    {track: "configmap/app", about: never, refused: true},
		"never copied, though owned":     {owners: "true", about: neverOwned},
		"never copied, and live":         {track: "configmap/app", about: optin.Traits{Never: "because", Policy: optin.PolicyLive}, refusedThawed: true},
		"never copied, and ignored":      {track: "configmap/app", about: optin.Traits{Never: "because", Policy: optin.PolicyIgnore}},
		"never copied, and not tracked":  {track: "configmap/web", about: never, frozen: "configmap/web", thawed: "configmap/web"},
		"owned, with consent":            {owners: "true", about: optin.Traits{Owned: true}, frozen: "configmap/app", thawed: "configmap/app"},
		"owned, without consent":         {about: optin.Traits{Owned: true}, ownerIgnored: true},
		"owned, and consent is refused":  {owners: "false", about: optin.Traits{Owned: true}, ownerIgnored: true},
		"owned without consent, tracked": {track: "all", about: optin.Traits{Owned: true}, frozen: both, thawed: both},
		"owned without consent, and a list": {
			track: "configmap/web", about: optin.Traits{Owned: true}, frozen: "configmap/web", thawed: "configmap/web", ownerIgnored: true,
		},
		"owned, and a list":                {owners: "true", track: "configmap/web", about: optin.Traits{Owned: true}, frozen: both, thawed: both},
		"owned, but opted out":             {owners: "true", track: "none", about: optin.Traits{Owned: true}},
		"marked, but no one searches":      {about: optin.Traits{Marked: true}},
		"owned, but the annotation is off": {track: "none", about: neverOwned},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			config := optin.Read(optin.Metadata{Annotations: annotated(keys.Track, test.track, keys.Owners, gocmp.Or(test.owners, "false"))}, optin.Defaults{})
			if len(config.Problems) > 0 {
				t.Fatal(config.Problems)
			}
			track := config.Track
			traits := traitsOf(map[string]optin.Traits{"configmap/app": test.about})
			uses := usesOf(both)
			for frozen, want := range map[bool]string{true: test.frozen, false: test.thawed} {
				selection := track.Select(uses, frozen, traits)
				if diff := cmp.Diff(usesOf(want), selection.Uses); diff != "" {
					t.Errorf("frozen %v: selected (-want +got):\n%s", frozen, diff)
				}
				var refused map[pin.Source]string
				if test.refused || test.refusedThawed && !frozen {
					refused = map[pin.Source]string{gen.Source("configmap/app"): "because"}
				}
				if diff := cmp.Diff(refused, selection.Refused); diff != "" {
					t.Errorf("frozen %v: refused (-want +got):\n%s", frozen, diff)
				}
				if ignored := len(selection.OwnersIgnored) > 0; ignored != test.ownerIgnored {
					t.Errorf("frozen %v: owners ignored %v", frozen, selection.OwnersIgnored)
				}
				if len(selection.Unused) > 0 {
					t.Errorf("frozen %v: unused %v, though the template refers to it", frozen, selection.Unused)
				}
			}
			if diff := cmp.Diff(usesOf(both), uses); diff != "" {
				t.Errorf("the uses were changed:\n%s", diff)
			}
		})
	}
}
