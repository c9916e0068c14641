package pin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"confrev.io/confrev/internal/pin"
)

var (
	app = pin.Source{Kind: pin.ConfigMap, Name: "app"}
	db  = pin.Source{Kind: pin.Secret, Name: "db"}
)

// What a hash may end a revision's name with, and names of revisions.
const (
	x    = "5f7d8c9b2k"
	appX = "app-" + x
	dbX  = "db-" + x
)

// long is the name of a source whose revisions have a part of it in their names.
var long = strings.Repeat("n", pin.MaxName)

func TestParse(t *testing.T) {
	tests := map[string]struct {
		text string
		want pin.Set
	}{
		"no text is no pins":              {"", pin.Set{}},
		"one pin":                         {"configmap/app=app-5f7d8c9b2k@3", pin.Set{app: {Revision: "app-5f7d8c9b2k", Number: 3}}},
		"pins in any order":               {"secret/db=" + dbX + "@1,configmap/app=" + appX + "@2", pin.Set{app: {Revision: appX, Number: 2}, db: {Revision: dbX, Number: 1}}},
		"a ConfigMap and a Secret alike":  {"configmap/db=" + dbX + "@1,secret/db=" + dbX + "@1", pin.Set{{Kind: pin.ConfigMap, Name: "db"}: {Revision: dbX, Number: 1}, db: {Revision: dbX, Number: 1}}},
		"names with dots and dashes":      {"configmap/a.b-c=a.b-c-" + x + "@1", pin.Set{{Kind: pin.ConfigMap, Name: "a.b-c"}: {Revision: "a.b-c-" + x, Number: 1}}},
		"names that start with a digit":   {"configmap/0=0-" + x + "@1", pin.Set{{Kind: pin.ConfigMap, Name: "0"}: {Revision: "0-" + x, Number: 1}}},
		"names that are cut":              {"configmap/" + long + "=" + long[:242] + "-" + x + "@1", pin.Set{{Kind: pin.ConfigMap, Name: long}: {Revision: long[:242] + "-" + x, Number: 1}}},
		"the highest number, 15 digits":   {"configmap/app=" + appX + "@999999999999999", pin.Set{app: {Revision: appX, Number: 999_999_999_999_999}}},
		"a source whose name is a prefix": {"configmap/app=" + appX + "@1,configmap/app2=app2-" + x + "@1", pin.Set{app: {Revision: appX, Number: 1}, {Kind: pin.ConfigMap, Name: "app2"}: {Revision: "app2-" + x, Number: 1}}},
		"a Secret of the CA's name":       {"secret/kube-root-ca.crt=kube-root-ca.crt-" + x + "@1", pin.Set{{Kind: pin.Secret, Name: "kube-root-ca.crt"}: {Revision: "kube-root-ca.crt-" + x, Number: 1}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := pin.Parse(test.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Parse(%q) (-want +got):\n%s", test.text, diff)
			}
		})
	}
}

// Someone who may write a template could make confrev look for thousands of revisions.
func TestATemplateHasNoMorePinsThanConfrevWrites(t *testing.T) {
	var pins []string
	for i := range pin.MaxPins + 1 {
		pins = append(pins, fmt.Sprintf("configmap/app%d=app%d-%s@1", i, i, x))
	}
	if set, err := pin.Parse(strings.Join(pins[1:], ",")); err != nil || len(set) != pin.MaxPins {
		t.Errorf("%d pins: %v", len(set), err)
	}
	if set, err := pin.Parse(strings.Join(pins, ",")); err == nil {
		t.Errorf("%d pins are read", len(set))
	}
	if _, err := pin.Parse(strings.Repeat(",", 250_000)); err == nil || len(err.Error()) > 100 {
		t.Errorf("commas alone: %v", err)
	}
}

func TestParsePinsRejectsMalformed(t *testing.T) {
	tests := map[string]struct{ text, quoted string }{
		"no revision":                    {"configmap/app", "configmap/app"},
		"no number":                      {"configmap/app=app-x", "configmap/app=app-x"},
		"an empty number":                {"configmap/app=app-x@", "configmap/app=app-x@"},
		"number 0":                       {"configmap/app=app-x@0", "app-x@0"},
		"a number with a leading zero":   {"configmap/app=app-x@01", "app-x@01"},
		"a negative number":              {"configmap/app=app-x@-1", "app-x@-1"},
		"a number with a sign":           {"configmap/app=app-x@+1", "app-x@+1"},
		"a hexadecimal number":           {"configmap/app=app-x@0x1", "app-x@0x1"},
		"a number of 16 digits":          {"configmap/app=app-x@1000000000000000", "@1000000000000000"},
		"a number beyond 64 bits":        {"configmap/app=app-x@99999999999999999999", "@9999"},
		"a pin to a pinned source":       {"configmap/app=" + appX + "@1,configmap/" + appX + "=" + appX + "-" + x + "@1", `"app-5f7d8c9b2k", which is itself pinned`},
		"a source pinned to itself":      {"configmap/app=app@1", `"app", which cannot be the name of one of its revisions`},
		"another object":                 {"secret/deploy-staging=deploy-prod@1", `"secret/deploy-staging" is pinned to "deploy-prod", which cannot be the name`},
		"another source's revision":      {"configmap/app=" + dbX + "@1", `"db-5f7d8c9b2k", which cannot be the name`},
		"a hash of other characters":     {"configmap/app=app-5f7d8c9b2a@1", `"app-5f7d8c9b2a", which cannot be the name`},
		"a hash that is too short":       {"configmap/app=app-5f7d8c9b2@1", `"app-5f7d8c9b2", which cannot be the name`},
		"a hash that is too long":        {"configmap/app=app-5f7d8c9b2kk@1", `"app-5f7d8c9b2kk", which cannot be the name`},
		"a name that is not cut":         {"configmap/" + long + "=" + long + "-" + x + "@1", "which cannot be the name"},
		"the cluster's CA":               {"configmap/kube-root-ca.crt=kube-root-ca.crt-" + x + "@1", `"configmap/kube-root-ca.crt" is pinned, but the cluster itself keeps writing it`},
		"no name":                        {"configmap/=app-x@1", "configmap/=app-x@1"},
		"no revision's name":             {"configmap/app=@1", "configmap/app=@1"},
		"no kind":                        {"app=app-x@1", "app=app-x@1"},
		"a kind in the plural":           {"configmaps/app=app-x@1", "configmaps/app"},
		"a kind in capitals":             {"ConfigMap/app=app-x@1", "ConfigMap/app"},
		"another kind":                   {"pod/app=app-x@1", "pod/app"},
		"a name in capitals":             {"configmap/App=app-x@1", "configmap/App"},
		"a name that starts with a dash": {"configmap/-app=app-x@1", "configmap/-app"},
		"a name that starts with a dot":  {"configmap/.app=app-x@1", "configmap/.app"},
		"a name with a slash":            {"configmap/a/b=app-x@1", "configmap/a/b"},
		"a name with an underscore":      {"configmap/a_b=app-x@1", "configmap/a_b"},
		"a revision in capitals":         {"configmap/app=App@1", "App@1"},
		"two equals signs":               {"configmap/app=b=c@1", "b=c@1"},
		"two at signs":                   {"configmap/app=b@1@2", "b@1@2"},
		"a space before":                 {" configmap/app=b@1", " configmap/app"},
		"a space after":                  {"configmap/app=b@1 ", "b@1 "},
		"a space after the comma":        {"configmap/app=b@1, secret/db=c@1", " secret/db"},
		"a newline after":                {"configmap/app=b@1\n", `b@1\n`},
		"a NUL":                          {"configmap/app=b@1\x00", `b@1\x00`},
		"a comma before":                 {",configmap/app=b@1", `""`},
		"a comma after":                  {"configmap/app=b@1,", `""`},
		"only a comma":                   {",", `""`},
		"a bad one among good ones":      {"configmap/app=b@1,oops,secret/db=c@1", `"oops"`},
		"the same source twice":          {"configmap/app=b@1,configmap/app=c@2", `"configmap/app" has more than one pin`},
		"the same pin twice":             {"configmap/app=b@1,configmap/app=b@1", `"configmap/app" has more than one pin`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := pin.Parse(test.text)
			if err == nil || got != nil {
				t.Fatalf("Parse(%q) = %v, %v; want an error and nothing else", test.text, got, err)
			}
			if !strings.Contains(err.Error(), test.quoted) {
				t.Errorf("Parse(%q) says %q; it must quote %q", test.text, err, test.quoted)
			}
		})
	}
}

func TestParseSource(t *testing.T) {
	for _, text := range []string{"configmap/app", "secret/db", "configmap/a.b-c", "configmap/kube-root-ca.crt", "secret/0", "configmap/" + long} {
		source, err := pin.ParseSource(text)
		if err != nil {
			t.Errorf("ParseSource(%q): %v", text, err)
		} else if source.String() != text {
			t.Errorf("ParseSource(%q) = %s", text, source)
		}
	}
	for _, text := range []string{"", "app", "configmap", "configmap/", "/app", "cm/app", "configmap/App", "configmap/a b", "configmap/app\n", "configmap/-", "all",
		"configmap/n" + long} {
		if source, err := pin.ParseSource(text); err == nil {
			t.Errorf("ParseSource(%q) = %s, want an error", text, source)
		} else if source != (pin.Source{}) {
			t.Errorf("ParseSource(%q) gave %s with its error", text, source)
		}
	}
}

func TestMayDerive(t *testing.T) {
	pins := pin.Set{app: {Revision: "app-bbbbbbbbbb", Number: 1}, db: {Revision: "db-bbbbbbbbbb", Number: 1}}
	for named, want := range map[pin.Source]bool{
		{Kind: pin.ConfigMap, Name: "app-bbbbbbbbbb"}:   true,
		{Kind: pin.ConfigMap, Name: "app-2456789xzw"}:   true, // Of another content.
		{Kind: pin.Secret, Name: "db-cccccccccc"}:       true,
		{Kind: pin.Secret, Name: "app-bbbbbbbbbb"}:      false,
		{Kind: pin.ConfigMap, Name: "db-bbbbbbbbbb"}:    false,
		{Kind: pin.ConfigMap, Name: "other-bbbbbbbbbb"}: false,
		app: false,
	} {
		if got := pins.MayDerive(named); got != want {
			t.Errorf("MayDerive(%s) = %v, want %v", named, got, want)
		}
	}
	if (pin.Set{}).MayDerive(pin.Source{Kind: pin.ConfigMap, Name: "app-bbbbbbbbbb"}) {
		t.Error("a name derives from no pins")
	}
}

func TestTheTextIsSortedByKindThenName(t *testing.T) {
	pins := pin.Set{
		db:                                   {Revision: "db-x", Number: 1},
		{Kind: pin.ConfigMap, Name: "zoo"}:   {Revision: "zoo-x", Number: 12},
		app:                                  {Revision: "app-x", Number: 3},
		{Kind: pin.ConfigMap, Name: "app-1"}: {Revision: "app-1-x", Number: 2},
	}
	const want = "configmap/app=app-x@3,configmap/app-1=app-1-x@2,configmap/zoo=zoo-x@12,secret/db=db-x@1"
	for range 20 { // Maps are walked in random order.
		if got := pins.String(); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
	sources := []pin.Source{app, {Kind: pin.ConfigMap, Name: "app-1"}, {Kind: pin.ConfigMap, Name: "zoo"}, db}
	if diff := cmp.Diff(sources, pins.Sources()); diff != "" {
		t.Errorf("Sources (-want +got):\n%s", diff)
	}
}

func TestANilSetReadsAsEmpty(t *testing.T) {
	var pins pin.Set
	if text, sources := pins.String(), pins.Sources(); text != "" || len(sources) != 0 {
		t.Errorf("String %q, Sources %v; want none", text, sources)
	}
	if revision, pinned := pins.Resolve(app); pinned || revision != "" {
		t.Errorf("Resolve = %q, %v; want nothing", revision, pinned)
	}
}

func TestResolveGivesTheRevisionOfThatVerySource(t *testing.T) {
	pins := pin.Set{app: {Revision: "app-x", Number: 3}}
	if revision, pinned := pins.Resolve(app); !pinned || revision != "app-x" {
		t.Errorf("Resolve(%s) = %q, %v; want app-x", app, revision, pinned)
	}
	if _, pinned := pins.Resolve(pin.Source{Kind: pin.Secret, Name: "app"}); pinned {
		t.Error("a Secret resolved to the revision of a ConfigMap of the same name")
	}
}

// drawSet draws pins whose revisions are none of their sources, as Parse demands: the names of those are shorter.
func drawSet(t *rapid.T) pin.Set {
	name := rapid.StringMatching(`[a-z0-9]([a-z0-9.-]{0,8}[a-z0-9])?`)
	source := rapid.Custom(func(t *rapid.T) pin.Source {
		return pin.Source{Kind: rapid.SampledFrom([]pin.Kind{pin.ConfigMap, pin.Secret}).Draw(t, "kind"), Name: "s" + name.Draw(t, "name")}
	})
	pins := pin.Set{}
	for _, from := range rapid.SliceOfN(source, 0, 8).Draw(t, "sources") {
		suffix := rapid.StringOfN(rapid.RuneFrom([]rune(pin.Alphabet)), pin.SuffixLength, pin.SuffixLength, -1)
		pins[from] = pin.Pin{Revision: pin.Base(from.Name) + "-" + suffix.Draw(t, "hash"),
			Number: rapid.Int64Range(1, 999_999_999_999_999).Draw(t, "number")}
	}
	return pins
}

func TestPinsSurviveTheirText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pins := drawSet(t)
		got, err := pin.Parse(pins.String())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[pin.Source]pin.Pin(pins), map[pin.Source]pin.Pin(got)); diff != "" {
			t.Fatalf("after %q (-want +got):\n%s", pins, diff)
		}
	})
}

// FuzzParse checks that what Parse accepts means what it says: written again, it has the same pins, sorted.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "configmap/app=" + appX + "@3", "secret/db=" + dbX + "@1,configmap/app=" + appX + "@2", "configmap/app=" + appX + "@999999999999999",
		"configmap/app=" + appX + "@1000000000000000", "configmap/app=b@1,configmap/app=c@2", "configmap/app=" + appX + "@1\n", ",",
		"configmap/app=app@1", "configmap/istio-ca-root-cert=istio-ca-root-cert-" + x + "@1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pins, err := pin.Parse(text)
		if err != nil {
			if pins != nil {
				t.Errorf("Parse(%q) gave pins with its error", text)
			}
			return
		}
		written := pins.String()
		if len(written) != len(text) {
			t.Errorf("Parse(%q) lost or added something: %q", text, written)
		}
		again, err := pin.Parse(written)
		if err != nil {
			t.Fatalf("Parse refuses what String gave, %q: %v", written, err)
		}
		if diff := cmp.Diff(map[pin.Source]pin.Pin(pins), map[pin.Source]pin.Pin(again)); diff != "" {
			t.Errorf("Parse(%q) again (-want +got):\n%s", text, diff)
		}
		for source, p := range pins {
			if p.Number < 1 || p.Number > 999_999_999_999_999 || !pin.Names(source.Name, p.Revision) || source.OfCluster() {
				t.Errorf("Parse(%q) has %s=%s", text, source, p)
			}
		}
	})
}
