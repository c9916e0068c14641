package optin_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// TestReloadersAnnotations has each of Reloader's annotations, with the meaning that its documentation gives it.
func TestReloadersAnnotations(t *testing.T) {
	marked := map[string]optin.Traits{"configmap/web": {Marked: true}}
	tests := map[string]struct {
		annotations, template map[string]string
		about                 map[string]optin.Traits
		tracked               string
		unheard               bool // nothing of Reloader's says what to track
		problem               string
	}{
		"auto":                                      {annotations: annotated(reloader+"auto", "true"), tracked: allTracked},
		"auto on the template":                      {template: annotated(reloader+"auto", "true"), tracked: allTracked},
		"auto: false":                               {annotations: annotated(reloader+"auto", "false")},
		"auto: false takes no owned source away":    {annotations: annotated(reloader+"auto", "false", keys.Owners, "true"), about: map[string]optin.Traits{"secret/db": {Owned: true}}, tracked: "secret/db"},
		"auto: false next to a list":                {annotations: annotated(reloader+"auto", "false", "configmap."+reloader+"reload", "app"), tracked: "configmap/app"},
		"auto: false next to auto for a kind":       {annotations: annotated(reloader+"auto", "false", "secret."+reloader+"auto", "true"), tracked: "secret/db"},
		"auto: false next to search":                {annotations: annotated(reloader+"auto", "false", reloader+"search", "true"), about: marked, tracked: "configmap/web"},
		"auto, as Go reads booleans":                {annotations: annotated(reloader+"auto", "T"), tracked: allTracked},
		"auto for a kind, as Go reads booleans":     {annotations: annotated("secret."+reloader+"auto", "1"), tracked: "secret/db"},
		"search, as Go reads booleans":              {annotations: annotated(reloader+"search", "True"), about: marked, tracked: "configmap/web"},
		"auto that cannot be read":                  {annotations: annotated(reloader+"auto", "yes"), unheard: true, problem: optin.InvalidCompat},
		"an empty auto cannot be read":              {annotations: annotated(reloader+"auto", ""), unheard: true, problem: optin.InvalidCompat},
		"auto for a kind that cannot be read":       {annotations: annotated("configmap."+reloader+"auto", "on"), unheard: true, problem: optin.InvalidCompat},
		"search that cannot be read":                {annotations: annotated(reloader+"search", "on"), about: marked, unheard: true, problem: optin.InvalidCompat},
		"what cannot be read takes nothing away":    {annotations: annotated(reloader+"auto", "nope", "configmap."+reloader+"reload", "app"), tracked: "configmap/app", problem: optin.InvalidCompat},
		"a slip leaves it to the template":          {annotations: annotated(reloader+"auto", "nope"), template: annotated(reloader+"auto", "true"), tracked: allTracked, problem: optin.InvalidCompat},
		"ignore":                                    {annotations: annotated(reloader+"ignore", "true", reloader+"auto", "true", "configmap."+reloader+"reload", "app"), about: map[string]optin.Traits{"secret/db": {Owned: true}}},
		"ignore alone":                              {annotations: annotated(reloader+"ignore", "true")},
		"ignore on the template":                    {template: annotated(reloader+"ignore", "true", reloader+"auto", "true")},
		"ignore: false":                             {annotations: annotated(reloader+"ignore", "false", reloader+"auto", "true"), tracked: allTracked},
		"ignore: false alone asks for nothing":      {annotations: annotated(reloader+"ignore", "false"), unheard: true},
		"ignore that cannot be read":                {annotations: annotated(reloader+"ignore", "please", reloader+"auto", "true"), tracked: allTracked, problem: optin.InvalidCompat},
		"auto for ConfigMaps":                       {annotations: annotated("configmap."+reloader+"auto", "true"), tracked: "configmap/app configmap/web"},
		"auto for Secrets":                          {annotations: annotated("secret."+reloader+"auto", "true"), tracked: "secret/db"},
		"auto for both":                             {annotations: annotated("configmap."+reloader+"auto", "true", "secret."+reloader+"auto", "true"), tracked: allTracked},
		"auto: false for a kind":                    {annotations: annotated("configmap."+reloader+"auto", "false"), unheard: true},
		"reload one ConfigMap":                      {annotations: annotated("configmap."+reloader+"reload", "app"), tracked: "configmap/app"},
		"reload one Secret":                         {annotations: annotated("secret."+reloader+"reload", "db"), tracked: "secret/db"},
		"reload several":                            {annotations: annotated("configmap."+reloader+"reload", " web , app,,gone"), tracked: "configmap/app configmap/web"},
		"reload both":                               {annotations: annotated("configmap."+reloader+"reload", "app", "secret."+reloader+"reload", "db"), tracked: "configmap/app secret/db"},
		"reload on the template":                    {template: annotated("configmap."+reloader+"reload", "app"), tracked: "configmap/app"},
		"reload by an expression":                   {annotations: annotated("configmap."+reloader+"reload", "a.*"), tracked: "configmap/app"},
		"reload next to auto":                       {annotations: annotated("configmap."+reloader+"reload", "app", "secret."+reloader+"auto", "true"), tracked: "configmap/app secret/db"},
		"reload what is of the other kind":          {annotations: annotated("secret."+reloader+"reload", "app")},
		"reload an empty list":                      {annotations: annotated("configmap."+reloader+"reload", "")},
		"an expression is for the whole name":       {annotations: annotated("configmap."+reloader+"reload", "ap,eb,pp")},
		"an expression of alternatives is too":      {annotations: annotated("configmap."+reloader+"reload", "ap|eb")},
		"alternatives":                              {annotations: annotated("configmap."+reloader+"reload", "app|web"), tracked: "configmap/app configmap/web"},
		"one that is none by itself":                {annotations: annotated("configmap."+reloader+"reload", "a)|(?:b,web"), tracked: "configmap/web", problem: optin.InvalidCompat},
		"one that is none within another":           {annotations: annotated("configmap."+reloader+"reload", `\Qapp,web`), tracked: "configmap/web", problem: optin.InvalidCompat},
		"an expression that is none":                {annotations: annotated("configmap."+reloader+"reload", "(app,web"), tracked: "configmap/web", problem: optin.InvalidCompat},
		"search, of sources without a match":        {annotations: annotated(reloader+"search", "true")},
		"search, of sources that match":             {annotations: annotated(reloader+"search", "true"), about: marked, tracked: "configmap/web"},
		"search: false":                             {annotations: annotated(reloader+"search", "false"), about: marked, unheard: true},
		"no search, of sources that match":          {about: marked, unheard: true},
		"an excluded ConfigMap":                     {annotations: annotated(reloader+"auto", "true", "configmaps.exclude."+reloader+"reload", "app"), tracked: "configmap/web secret/db"},
		"an excluded Secret":                        {annotations: annotated(reloader+"auto", "true", "secrets.exclude."+reloader+"reload", "db,app"), tracked: "configmap/app configmap/web"},
		"exclusions are no expressions":             {annotations: annotated(reloader+"auto", "true", "configmaps.exclude."+reloader+"reload", "a.*,app|web"), tracked: allTracked},
		"exclusions, with spaces":                   {annotations: annotated(reloader+"auto", "true", "configmaps.exclude."+reloader+"reload", " web ,,app"), tracked: "secret/db"},
		"excluded, only the whole name":             {annotations: annotated(reloader+"auto", "true", "configmaps.exclude."+reloader+"reload", "ap"), tracked: allTracked},
		"an exclusion that is no expression":        {annotations: annotated(reloader+"auto", "true", "configmaps.exclude."+reloader+"reload", "["), tracked: allTracked},
		"named and excluded":                        {annotations: annotated("configmap."+reloader+"reload", "app,web", "configmaps.exclude."+reloader+"reload", "app"), tracked: "configmap/web"},
		"marked and excluded":                       {annotations: annotated(reloader+"search", "true", "configmaps.exclude."+reloader+"reload", "web"), about: marked},
		"an exclusion alone asks for nothing":       {annotations: annotated("configmaps.exclude."+reloader+"reload", "app"), unheard: true},
		"an exclusion next to auto on the template": {annotations: annotated("configmaps.exclude."+reloader+"reload", "app"), template: annotated(reloader+"auto", "true"), tracked: "configmap/web secret/db"},
		"the workload's wins over the template's": {
			annotations: annotated("configmap."+reloader+"reload", "app"), template: annotated(reloader+"auto", "true"), tracked: "configmap/app",
		},
		"an opt-out wins over the template's": {annotations: annotated(reloader+"auto", "false"), template: annotated(reloader+"auto", "true")},
		"strategies and pauses ask for nothing": {
			annotations: annotated(reloader+"rollout-strategy", "restart", "deployment."+reloader+"pause-period", "5m"), unheard: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			config := optin.Read(optin.Metadata{Annotations: test.annotations, TemplateAnnotations: test.template}, defaults)
			if got := tracks(config.Track, test.about); got != test.tracked {
				t.Errorf("tracks %q, want %q", got, test.tracked)
			}
			mode := optin.Restart
			if test.unheard {
				mode = optin.Revision
			}
			if config.Mode != mode {
				t.Errorf("mode %s, want %s", config.Mode, mode)
			}
			if got := reasonsOf(config.Problems); got != test.problem {
				t.Errorf("problems %+v, want %q", config.Problems, test.problem)
			}
		})
	}
}

func TestWavesAnnotations(t *testing.T) {
	const on = wave + "update-on-config-change"
	tests := map[string]struct {
		annotations map[string]string
		tracked     string
		configMaps  []string
		secrets     []string
		unheard     bool
		problem     string
		quoted      string
	}{
		"update-on-config-change":        {annotations: annotated(on, "true"), tracked: allTracked},
		"anything but true is no":        {annotations: annotated(on, "yes"), unheard: true},
		"extras alone ask for nothing":   {annotations: annotated(wave+"extra-configmaps", "flags"), unheard: true},
		"an extra ConfigMap":             {annotations: annotated(on, "true", wave+"extra-configmaps", "flags"), tracked: allTracked, configMaps: []string{"flags"}},
		"extra Secrets":                  {annotations: annotated(on, "true", wave+"extra-secrets", " a , b.c,"), tracked: allTracked, secrets: []string{"a", "b.c"}},
		"both":                           {annotations: annotated(on, "true", wave+"extra-configmaps", "x", wave+"extra-secrets", "y"), tracked: allTracked, configMaps: []string{"x"}, secrets: []string{"y"}},
		"one of another namespace":       {annotations: annotated(on, "true", wave+"extra-configmaps", "other/flags,mine"), tracked: allTracked, configMaps: []string{"mine"}, problem: optin.InvalidCompat, quoted: "other/flags"},
		"the hash that Wave has written": {annotations: annotated(wave+"config-hash", "abc"), unheard: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			config := optin.Read(optin.Metadata{Annotations: test.annotations}, defaults)
			if got := tracks(config.Track, nil); got != test.tracked {
				t.Errorf("tracks %q, want %q", got, test.tracked)
			}
			if (config.Mode == optin.Restart) == test.unheard {
				t.Errorf("mode %s", config.Mode)
			}
			for kind, want := range map[pin.Kind][]string{pin.ConfigMap: test.configMaps, pin.Secret: test.secrets} {
				names, exact := config.Track.ListedNames(kind)
				if diff := cmp.Diff(want, names); diff != "" || !exact {
					t.Errorf("%ss that are named, exact: %v (-want +got):\n%s", kind, exact, diff)
				}
			}
			if got := reasonsOf(config.Problems); got != test.problem {
				t.Fatalf("problems %+v, want %q", config.Problems, test.problem)
			}
			if len(config.Problems) > 0 && !strings.Contains(config.Problems[0].Text, test.quoted) {
				t.Errorf("%q does not say %q", config.Problems[0].Text, test.quoted)
			}
		})
	}
	// Wave does not look at the template.
	config := optin.Read(optin.Metadata{TemplateAnnotations: annotated(on, "true")}, defaults)
	if config.Track.Enabled() {
		t.Error("Wave's annotation of the template opts in")
	}
}

func TestBothToolsTogetherTrackWhatEitherDoes(t *testing.T) {
	config := optin.Read(optin.Metadata{Annotations: annotated(
		"configmap."+reloader+"reload", "a", wave+"update-on-config-change", "true", wave+"extra-configmaps", "b",
	)}, defaults)
	names, exact := config.Track.ListedNames(pin.ConfigMap)
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" || !exact || tracks(config.Track, nil) != allTracked {
		t.Errorf("tracks %q, exact: %v, names (-want +got):\n%s", tracks(config.Track, nil), exact, diff)
	}
}

// What is tracked by name is tracked though nothing refers to it.
func TestNamed(t *testing.T) {
	const reload, exclude = "configmap." + reloader + "reload", "configmaps.exclude." + reloader + "reload"
	tests := map[string]struct {
		annotations map[string]string
		names       string
		inexact     bool
		named       string // of "a", "aa", "b" and "a.b", those that Names tells
	}{
		"nothing":                     {},
		"all that is referred to":     {annotations: annotated(reloader+"auto", "true")},
		"one":                         {annotations: annotated(reload, "a"), names: "a", named: "a"},
		"several":                     {annotations: annotated(reload, "a,b"), names: "a b", named: "a b"},
		"an expression":               {annotations: annotated(reload, "a+"), inexact: true, named: "a aa"},
		"an expression and a name":    {annotations: annotated(reload, "a+,b"), names: "b", inexact: true, named: "a aa b"},
		"a dot, which is any letter":  {annotations: annotated(reload, "a.b"), inexact: true, named: "a.b"},
		"excluded of an expression":   {annotations: annotated(reload, "a.*", exclude, "aa"), inexact: true, named: "a a.b"},
		"exclusions are exact":        {annotations: annotated(reload, "a,b", exclude, "a.*"), names: "a b", named: "a b"},
		"an expression, all excluded": {annotations: annotated(reload, "a+", exclude, "a,aa"), inexact: true},
		"a name that is excluded":     {annotations: annotated(reload, "a,b", exclude, "a"), names: "b", named: "b"},
		"auto: false":                 {annotations: annotated(reload, "a,a+", reloader+"auto", "false"), names: "a", inexact: true, named: "a aa"},
		"opted out":                   {annotations: annotated(reload, "a,a+", reloader+"ignore", "true")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			track := optin.Read(optin.Metadata{Annotations: test.annotations}, defaults).Track
			names, exact := track.ListedNames(pin.ConfigMap)
			if got := strings.Join(names, " "); got != test.names || exact == test.inexact {
				t.Errorf("Named = %q, exact: %v", got, exact)
			}
			var named []string
			for _, name := range []string{"a", "aa", "b", "a.b"} {
				if track.MatchesName(pin.Source{Kind: pin.ConfigMap, Name: name}) {
					named = append(named, name)
				}
			}
			if got := strings.Join(named, " "); got != test.named {
				t.Errorf("Names tells %q, want %q", got, test.named)
			}
			if names, exact := track.ListedNames(pin.Secret); len(names) > 0 || !exact || track.MatchesName(pin.Source{Kind: pin.Secret, Name: "a"}) {
				t.Errorf("Secrets are named: %q, exact: %v", names, exact)
			}
		})
	}
}

// An annotation must never stop the controller.
func TestAnyExpressionIsReadOrRefused(t *testing.T) {
	const reload, exclude = "configmap." + reloader + "reload", "configmaps.exclude." + reloader + "reload"
	deep := func(n int) string { return strings.Repeat("(", n) + "a" + strings.Repeat(")", n) }
	refused := map[string]bool{
		`\Qa`: true, `\Qa\E`: false, "a)(b": true, "a)|(?:b": true, "(?i)A": false, "[": true, "*": true, deep(2): false, deep(63): false, deep(64): true,
		deep(500): true, "(((((a{10}){10}){10}){10}){10})": true, `(?:a`: true, `a|`: false, "$^": false,
	}
	for text, want := range refused {
		for _, key := range []string{reload, exclude} {
			func() {
				defer func() {
					if r := recover(); r != nil {
						t.Errorf("%s: %.40q: %.120v", key, text, r)
					}
				}()
				config := optin.Read(optin.Metadata{Annotations: annotated(key, text)}, defaults)
				problem := ""
				if want && key == reload {
					problem = optin.InvalidCompat
				}
				if got := reasonsOf(config.Problems); got != problem {
					t.Errorf("%s: %.40q: problems %+v, want %q", key, text, config.Problems, problem)
				}
			}()
		}
	}
}

// FuzzRead reads any annotations: it terminates, and reads the same result each time.
func FuzzRead(f *testing.F) {
	f.Add("all", "app,a.*", "restart", "configmap/flags")
	f.Add("none", `a|b`, "attach", "deployments.v1.apps/web{.spec.replicas}")
	f.Fuzz(func(t *testing.T, track, reload, mode, restartOn string) {
		w := optin.Metadata{
			Annotations: annotated("confrev.io/mode", mode, "confrev.io/restart-on", restartOn, "confrev.io/settle", track,
				"configmap."+reloader+"reload", reload, "secrets.exclude."+reloader+"reload", reload, wave+"extra-secrets", reload,
				wave+"update-on-config-change", mode),
			NamespaceLabels: annotated("confrev.io/track", track),
		}
		a, b := optin.Read(w, defaults), optin.Read(w, defaults)
		if tracks(a.Track, nil) != tracks(b.Track, nil) || a.Mode != b.Mode || !cmp.Equal(a.RestartOn, b.RestartOn) || !cmp.Equal(a.Problems, b.Problems) {
			t.Errorf("%+v\nand\n%+v", a, b)
		}
		hashes := pin.Set{}
		for _, kind := range pin.Kinds {
			names, _ := a.Track.ListedNames(kind)
			for _, name := range names {
				hashes[pin.Source{Kind: kind, Name: name}] = pin.Pin{Revision: "absent", Number: 1}
			}
		}
		if _, err := pin.ParseHashes(hashes.String()); err != nil {
			t.Errorf("%q cannot be read: %v", hashes, err)
		}
		if a.Mode != optin.Revision && a.Mode != optin.Restart && a.Mode != optin.Attach {
			t.Errorf("mode %q", a.Mode)
		}
	})
}

// Every look at a workload compiles its expressions again.
func TestExpressionsAreBounded(t *testing.T) {
	const reload = "configmap." + reloader + "reload"
	const tooMany, tooLong, tooBig = "more than 32 regular expressions", "longer than 128 bytes", "too big a regular expression"
	tests := map[string]struct {
		text, problem string
		matches       string // a name that is tracked
	}{
		"as many as there may be":        {text: listOf("a+%d", 32), matches: "a31"},
		"one more":                       {text: listOf("a+%d", 33), problem: tooMany, matches: "a31"},
		"the last of them":               {text: listOf("a+%d", 33), problem: tooMany, matches: "!a32"},
		"names are no expressions":       {text: listOf("a%d", 200), matches: "a199"},
		"more names than there may be":   {text: listOf("a%d", 201), problem: "more than 200 items", matches: "!a200"},
		"names next to expressions":      {text: listOf("a+%d", 33) + ",b", problem: tooMany, matches: "b"},
		"as long as it may be":           {text: "a+" + strings.Repeat("b", 126), matches: "a" + strings.Repeat("b", 126)},
		"longer":                         {text: "a+" + strings.Repeat("b", 127), problem: tooLong},
		"a long name is no expression":   {text: strings.Repeat("b", 253), matches: strings.Repeat("b", 253)},
		"a repetition":                   {text: "a{128}", matches: strings.Repeat("a", 128)},
		"a longer one":                   {text: "a{129}", problem: tooBig},
		"one next to something":          {text: "a{127}b", matches: strings.Repeat("a", 127) + "b"},
		"one next to more":               {text: "a{127}bc", problem: tooBig},
		"none at all":                    {text: "a{0}b", matches: "b"},
		"a repetition of a class":        {text: "[a-z0-9-]{60}", matches: strings.Repeat("a-0", 20)},
		"a repetition that may be less":  {text: "(?:a?){64}", matches: "a"},
		"one of more":                    {text: "(?:a?){65}", problem: tooBig},
		"repetitions that multiply":      {text: "(a{30}){30}", problem: tooBig},
		"repetitions next to each other": {text: strings.Repeat("a{50}", 3), problem: tooBig},
		"a class of Unicode":             {text: `\pLa`, problem: tooBig},
		"what is in no class of Unicode": {text: `a\P{Greek}`, problem: tooBig},
		"a character by its number":      {text: `\x{61}`, problem: tooBig},
		"a character that no name has":   {text: "ä+", problem: tooBig},
		"a control character":            {text: "a\x1f+", problem: tooBig},
		"the last one of ASCII":          {text: "a\x7f+", problem: tooBig},
		"the first and last characters":  {text: "a[ ~b]", matches: "ab"},
		"regardless of case":             {text: "(?i)APP", matches: "app"},
		"digits":                         {text: `app\d+`, matches: "app1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			config := optin.Read(optin.Metadata{Annotations: annotated(reload, test.text)}, defaults)
			said := ""
			for _, problem := range config.Problems {
				said += problem.Text
			}
			if (test.problem == "") != (said == "") || !strings.Contains(said, test.problem) {
				t.Errorf("it says %q, want %q", said, test.problem)
			}
			name, not := strings.CutPrefix(test.matches, "!")
			if got := config.Track.MatchesName(pin.Source{Kind: pin.ConfigMap, Name: name}); name != "" && got == not {
				t.Errorf("%s is tracked: %v", name, got)
			}
		})
	}
}

func TestFewMistakesInExpressionsAreListed(t *testing.T) {
	for slips, rest := range map[int]string{5: "", 6: "; and 1 more", 32: "; and 27 more"} {
		config := optin.Read(optin.Metadata{Annotations: annotated("configmap."+reloader+"reload", listOf("slip-%d(", slips))}, defaults)
		if len(config.Problems) != 1 || strings.Count(config.Problems[0].Text, "is not a regular expression") != 5 || !strings.HasSuffix(config.Problems[0].Text, "expression"+rest) {
			t.Errorf("of %d: %+v", slips, config.Problems)
		}
	}
}

// What is tracked by name is noted in the annotation of hashes, which nothing can read if one name has another form.
func TestNamesThatNoObjectHas(t *testing.T) {
	for _, name := range []string{"a=b", "a@1", "a b", "A", "a_b", "-a", strings.Repeat("a", 254), "\xff"} {
		for key, other := range map[string]string{"secret." + reloader + "reload": reloader + "auto", wave + "extra-secrets": wave + "update-on-config-change"} {
			config := optin.Read(optin.Metadata{Annotations: annotated(key, name+",db", other, "true")}, defaults)
			names, exact := config.Track.ListedNames(pin.Secret)
			if strings.Join(names, " ") != "db" || !exact || reasonsOf(config.Problems) != optin.InvalidCompat {
				t.Errorf("%s: %q: names %q, problems %+v", key, name, names, config.Problems)
			}
		}
	}
}

// Each list has its own limit, and what is beyond it is not read.
func TestNamesOfOtherToolsAreBounded(t *testing.T) {
	lists := map[string]func(list string) optin.Config{
		"exclusions": func(list string) optin.Config {
			return optin.Read(optin.Metadata{Annotations: annotated("configmap."+reloader+"reload", "b.*", "configmaps.exclude."+reloader+"reload", list)}, defaults)
		},
		"Wave's extras": func(list string) optin.Config {
			return optin.Read(optin.Metadata{Annotations: annotated(wave+"update-on-config-change", "true", wave+"extra-configmaps", list)}, defaults)
		},
	}
	for what, read := range lists {
		for items, problem := range map[int]string{200: "", 201: optin.InvalidCompat} {
			config := read(listOf("b%d", items))
			if got := reasonsOf(config.Problems); got != problem {
				t.Errorf("%d %s: problems %+v", items, what, config.Problems)
			}
			last := config.Track.MatchesName(pin.Source{Kind: pin.ConfigMap, Name: "b199"})
			beyond := config.Track.MatchesName(pin.Source{Kind: pin.ConfigMap, Name: "b200"})
			if isExclusion := what == "exclusions"; last == isExclusion || beyond != isExclusion {
				t.Errorf("%d %s: the last one is tracked: %v, one beyond: %v", items, what, last, beyond)
			}
		}
	}
}
