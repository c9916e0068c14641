package pin_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"confrev.io/confrev/internal/pin"
)

func TestParseHashes(t *testing.T) {
	claim := pin.Source{Kind: "persistentvolumeclaims.v1", Name: "data"}
	tests := map[string]struct {
		text string
		want pin.Set
	}{
		"no text is no hashes":          {"", pin.Set{}},
		"a ConfigMap":                   {"configmap/app=5f7d8c9b2k@3", pin.Set{app: {Revision: "5f7d8c9b2k", Number: 3}}},
		"an object of the core group":   {"persistentvolumeclaims.v1/data=abc@1", pin.Set{claim: {Revision: "abc", Number: 1}}},
		"an object of another group":    {"widgets.v1alpha1.example.com/w=abc@1", pin.Set{{Kind: "widgets.v1alpha1.example.com", Name: "w"}: {Revision: "abc", Number: 1}}},
		"a name with colons":            {"clusterroles.v1.rbac.authorization.k8s.io/system:node=abc@1", pin.Set{{Kind: "clusterroles.v1.rbac.authorization.k8s.io", Name: "system:node"}: {Revision: "abc", Number: 1}}},
		"a name in capitals":            {"widgets.v1.example.com/Big=abc@1", pin.Set{{Kind: "widgets.v1.example.com", Name: "Big"}: {Revision: "abc", Number: 1}}},
		"several kinds, in any order":   {"secret/db=b@2,persistentvolumeclaims.v1/data=abc@1", pin.Set{claim: {Revision: "abc", Number: 1}, db: {Revision: "b", Number: 2}}},
		"the highest number":            {"configmap/app=a@999999999999999", pin.Set{app: {Revision: "a", Number: pin.MaxNumber}}},
		"a hash that names a source":    {"configmap/app=b@1,configmap/b=c@1", pin.Set{app: {Revision: "b", Number: 1}, {Kind: pin.ConfigMap, Name: "b"}: {Revision: "c", Number: 1}}},
		"a hash that is its own source": {"configmap/app=app@1", pin.Set{app: {Revision: "app", Number: 1}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := pin.ParseHashes(test.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("ParseHashes(%q) (-want +got):\n%s", test.text, diff)
			}
		})
	}
}

func TestParseHashesRejectsMalformed(t *testing.T) {
	tests := map[string]struct{ text, quoted string }{
		"a word":                    {"oops", `"oops"`},
		"no number":                 {"configmap/app=abc", "configmap/app=abc"},
		"number 0":                  {"configmap/app=abc@0", "abc@0"},
		"a number of 16 digits":     {"configmap/app=abc@1000000000000000", "@1000000000000000"},
		"no hash":                   {"configmap/app=@1", "configmap/app=@1"},
		"a hash in capitals":        {"configmap/app=ABC@1", "ABC@1"},
		"no name":                   {"configmap/=abc@1", "configmap/=abc@1"},
		"no kind":                   {"app=abc@1", "app=abc@1"},
		"a kind in capitals":        {"ConfigMap/app=abc@1", "ConfigMap/app"},
		"a name with a slash":       {"a.v1/b/c=abc@1", "a.v1/b/c"},
		"a name with an at sign":    {"a.v1/b@c=abc@1", "a.v1/b@c"},
		"a name with an equals":     {"a.v1/b=c=abc@1", "a.v1/b=c"},
		"a name with a space":       {"a.v1/b c=abc@1", "a.v1/b c"},
		"a name for a shell to run": {"a.v1/$(b)=abc@1", "a.v1/$(b)"},
		"a newline after":           {"configmap/app=abc@1\n", `abc@1\n`},
		"a comma after":             {"configmap/app=abc@1,", `""`},
		"a bad one among good ones": {"configmap/app=b@1,oops,secret/db=c@1", `"oops"`},
		"the same object twice":     {"a.v1/b=c@1,a.v1/b=d@2", `"a.v1/b" has more than one hash`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := pin.ParseHashes(test.text)
			if err == nil || got != nil {
				t.Fatalf("ParseHashes(%q) = %v, %v; want an error and nothing else", test.text, got, err)
			}
			if !strings.Contains(err.Error(), test.quoted) {
				t.Errorf("ParseHashes(%q) says %q; it must quote %q", test.text, err, test.quoted)
			}
		})
	}
}

// drawHashes draws hashes of objects of any kind.
func drawHashes(t *rapid.T) pin.Set {
	object := rapid.Custom(func(t *rapid.T) pin.Source {
		return pin.Source{
			Kind: pin.Kind(rapid.StringMatching(`(configmap|secret|[a-z][a-z0-9-]{0,5}\.v1(\.[a-z]{1,4}){0,3})`).Draw(t, "kind")),
			Name: rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9:._-]{0,7}`).Draw(t, "name"),
		}
	})
	value := rapid.Custom(func(t *rapid.T) pin.Pin {
		return pin.Pin{Revision: rapid.StringMatching(`[a-z2-7]{1,16}`).Draw(t, "hash"), Number: rapid.Int64Range(1, pin.MaxNumber).Draw(t, "number")}
	})
	return rapid.MapOfN(object, value, 0, 8).Draw(t, "hashes")
}

func TestHashesSurviveTheirText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hashes := drawHashes(t)
		got, err := pin.ParseHashes(hashes.String())
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(hashes, got) {
			t.Fatalf("%q was read as %v", hashes, got)
		}
	})
}

// The notes of holds have both, and are read as hashes.
func TestEveryTextOfPinsIsOneOfHashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pins := drawSet(t)
		got, err := pin.ParseHashes(pins.String())
		if err != nil || !maps.Equal(pins, got) {
			t.Fatalf("%q was read as %v: %v", pins, got, err)
		}
	})
}

func TestTheInverseLeadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pins := drawSet(t)
		inverse := pin.Inverse(pins)
		for named, source := range inverse {
			if pins[source].Revision != named.Name || source.Kind != named.Kind {
				t.Fatalf("%s leads to %s, which is pinned to %s", named, source, pins[source])
			}
		}
		for source, p := range pins {
			if _, ok := inverse[pin.Source{Kind: source.Kind, Name: p.Revision}]; !ok {
				t.Fatalf("%s is the revision of nothing", p.Revision)
			}
			if _, ok := inverse[source]; ok {
				t.Fatalf("%s is a source, not a revision", source)
			}
		}
	})
	var none pin.Set
	if got := pin.Inverse(none); len(got) > 0 {
		t.Errorf("the inverse of nothing is %v", got)
	}
}

// Two sources of one revision: which of them a reference to it meant must not be a matter of chance, since the answer
// goes into a template.
func TestTheInverseIsTheSameEachTime(t *testing.T) {
	pins := pin.Set{app: {Revision: "same", Number: 1}, {Kind: pin.ConfigMap, Name: "b"}: {Revision: "same", Number: 1}}
	want := map[pin.Source]pin.Source{{Kind: pin.ConfigMap, Name: "same"}: app} // "app" comes before "b"
	for range 50 {
		if got := pin.Inverse(pins); !maps.Equal(want, got) {
			t.Fatalf("now %v, now %v", want, got)
		}
	}
}

// FuzzParseHashes checks that what ParseHashes accepts means what it says.
func FuzzParseHashes(f *testing.F) {
	for _, seed := range []string{"", "configmap/app=abc@3", "clusterroles.v1.rbac.authorization.k8s.io/system:node=a@1,secret/db=b@2", "a.v1/b=c@1,", "a/b=c@1,a/b=c@1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		hashes, err := pin.ParseHashes(text)
		if err != nil {
			if hashes != nil {
				t.Errorf("ParseHashes(%q) gave hashes with its error", text)
			}
			return
		}
		again, err := pin.ParseHashes(hashes.String())
		if err != nil || !maps.Equal(hashes, again) || len(hashes.String()) != len(text) {
			t.Errorf("%q was read as %q, and that as %v: %v", text, hashes, again, err)
		}
	})
}
