package content_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/pin"
)

// keepNames is what a changed golden value must be answered with.
const keepNames = "\nHashes and names made before must stay as they are. A change restarts nothing only because revisions " +
	"with equal content are reused (rule 8), but it breaks the stability of names: add a new hash version instead."

var (
	plain = content.Content{Kind: pin.ConfigMap, Data: map[string][]byte{"a": []byte("1"), "b": []byte("x=y;\nz")}}
	mixed = content.Content{Kind: pin.ConfigMap, Data: map[string][]byte{"a": []byte("1")}, BinaryData: map[string][]byte{"b": {0, 0xff, 0x80}}}
	empty = content.Content{Kind: pin.ConfigMap}
	tls   = content.Content{Kind: pin.Secret, Type: "kubernetes.io/tls", Data: map[string][]byte{"tls.crt": []byte("c"), "tls.key": []byte("k")}}
	large = content.Content{Kind: pin.ConfigMap, Data: map[string][]byte{"k": []byte(strings.Repeat("0123456789", 100_000))}}
)

func TestGoldenHashesAndNames(t *testing.T) {
	tests := map[string]struct {
		content      content.Content
		hash         content.Hash
		name, salted string
	}{
		"plain data":          {plain, "v1-vi7jsgbjkzjvxf7nogvk3iccynmdqsecqxa3jdejohgw7vbhxz5a", "app-g2qfs2g875", "app-s9hgpv4jjd"},
		"data and binaryData": {mixed, "v1-7wdhwkiod7hnyr3nnif572fgw5vfrnz25ydow4e7nevhdxcfiwxq", "app-9gx8nf8rh6", "app-p997d486ft"},
		"an empty ConfigMap":  {empty, "v1-5cpndjutewbbmqnr4ty64kvcyjtp37yolqk4lgrxlutewcdpcplq", "app-kmcw69j7rj", "app-sm2cf4pvbk"},
		"a TLS Secret":        {tls, "v1-e5dntky66g6tial6h26oqmn54fnq4tomukhvjhbvqqeh7wfchx3q", "app-lfskzf44s8", "app-plrb6rplml"},
		"a megabyte":          {large, "v1-s67wrxv42f4ghzvc54ger7euwdj2ptkyzb4zy2s3td2qac2m4tpa", "app-w5flnkc4j6", "app-htbs6rbszh"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hash := test.content.Hash()
			if hash != test.hash {
				t.Errorf("Hash = %s, was %s%s", hash, test.hash, keepNames)
			}
			if got := content.RevisionName("app", test.hash, 0); got != test.name {
				t.Errorf("RevisionName = %s, was %s%s", got, test.name, keepNames)
			}
			if got := content.RevisionName("app", test.hash, 1); got != test.salted {
				t.Errorf("RevisionName with salt 1 = %s, was %s%s", got, test.salted, keepNames)
			}
		})
	}
}

func TestGoldenNamesOfLongSources(t *testing.T) {
	long := strings.Repeat("long.name-", 25) + "end"
	if got, want := content.RevisionName(long, plain.Hash(), 0), strings.Repeat("long.name-", 24)+"lo-ftrfs7t5h4"; got != want {
		t.Errorf("RevisionName = %s, was %s%s", got, want, keepNames)
	}
	if got, want := content.SourceLabel(long), "long.name-long.name-long.name-long.name-long.name-lo-jtdpptvwbd"; got != want {
		t.Errorf("SourceLabel = %s, was %s%s", got, want, keepNames)
	}
}

func TestGoldenDigests(t *testing.T) {
	want := content.Digests{"a": "vpjvp4hm2pvg2ga7", "b": "uxuxz6xuitikhxeb"}
	if diff := cmp.Diff(want, mixed.Digests()); diff != "" {
		t.Errorf("Digests (-was +is):\n%s%s", diff, keepNames)
	}
}

func TestTheHashIsALabelValueBehindItsVersion(t *testing.T) {
	for _, c := range []content.Content{plain, mixed, empty, tls, large, {}} {
		hash := c.Hash()
		if problems := validation.IsValidLabelValue(string(hash)); len(problems) > 0 {
			t.Errorf("%s: %v", hash, problems)
		}
		if !(*content.Key)(nil).Made(hash) {
			t.Errorf("%s is not of the current version", hash)
		}
	}
	for _, hash := range []content.Hash{"", "v1", "v2-abc", "v10-abc", "abc", "xv1-abc"} {
		if (*content.Key)(nil).Made(hash) {
			t.Errorf("%q counts as the current version", hash)
		}
	}
}

func TestFromConfigMapTakesDataOnly(t *testing.T) {
	cm := &corev1.ConfigMap{Data: map[string]string{"a": "1", "": ""}, BinaryData: map[string][]byte{"b": {0xff}}}
	want := content.Content{
		Kind: pin.ConfigMap, Data: map[string][]byte{"a": []byte("1"), "": {}}, BinaryData: map[string][]byte{"b": {0xff}},
	}
	got := content.FromConfigMap(cm)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	immutable := true
	cm.Name, cm.Labels, cm.Annotations, cm.Immutable = "other", map[string]string{"a": "b"}, map[string]string{"a": "b"}, &immutable
	if content.FromConfigMap(cm).Hash() != got.Hash() { // rule 3
		t.Error("a change to metadata changed the hash")
	}
	if content.FromConfigMap(&corev1.ConfigMap{}).Hash() != empty.Hash() {
		t.Error("an empty ConfigMap is not empty")
	}
}

// drawName draws a legal name of a ConfigMap, often as long as it may be, with dots and dashes where the cut may be.
func drawName(t *rapid.T) string {
	end := rapid.StringMatching(`[a-z0-9]`)
	length := rapid.OneOf(rapid.IntRange(2, 253), rapid.IntRange(238, 253), rapid.IntRange(49, 66)).Draw(t, "length")
	between := rapid.SampledFrom([]byte("abz09--")) // Dashes may follow each other, dots may not.
	name := []byte(end.Draw(t, "first"))
	for range length - 2 {
		name = append(name, between.Draw(t, "character"))
	}
	name = append(name, end.Draw(t, "last")...)
	for _, at := range rapid.SliceOfN(rapid.IntRange(1, max(1, length-2)), 0, 5).Draw(t, "dots") {
		if isAlphanumeric(name[at-1]) && at+1 < len(name) && isAlphanumeric(name[at+1]) {
			name[at] = '.'
		}
	}
	return string(name)
}

func isAlphanumeric(b byte) bool { return b != '-' && b != '.' }

func TestNamesAreAlwaysValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := drawName(t)
		if problems := validation.IsDNS1123Subdomain(source); len(problems) > 0 {
			t.Fatalf("the test drew %q: %v", source, problems)
		}
		checkNames(t, source, content.Content{Type: rapid.String().Draw(t, "content")}.Hash())
	})
}

func checkNames(t interface{ Errorf(string, ...any) }, source string, hash content.Hash) {
	seen := map[string]bool{source: true}
	for salt := range 4 {
		name := content.RevisionName(source, hash, salt)
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Errorf("revision %q of %q: %v", name, source, problems)
		}
		if seen[name] {
			t.Errorf("salt %d results in %q again", salt, name)
		}
		seen[name] = true
		if len(source) <= 242 && !strings.HasPrefix(name, source+"-") {
			t.Errorf("revision %q of %q does not begin with its name", name, source)
		}
		if name != content.RevisionName(source, hash, salt) {
			t.Errorf("revision %q has another name the second time", name)
		}
		if _, err := pin.Parse("configmap/" + source + "=" + name + "@1"); err != nil {
			t.Errorf("cannot be pinned: %v", err)
		}
	}
	label := content.SourceLabel(source)
	if problems := validation.IsValidLabelValue(label); len(problems) > 0 {
		t.Errorf("label %q of %q: %v", label, source, problems)
	}
	if (label == source) != (len(source) <= 63) {
		t.Errorf("label %q of %q, which has %d characters", label, source, len(source))
	}
}

func TestLongNames(t *testing.T) {
	hash := plain.Hash()
	base := strings.Repeat("a", 252)
	if content.RevisionName(base+"1", hash, 0) == content.RevisionName(base+"2", hash, 0) {
		t.Error("two sources that differ only behind the cut have one revision name")
	}
	if content.SourceLabel(base+"1") == content.SourceLabel(base+"2") {
		t.Error("two sources that differ only behind the cut have one label")
	}
	if name := content.RevisionName(base+"1", hash, 0); len(name) != 253 {
		t.Errorf("the name of a long source has %d characters, want all of 253", len(name))
	}
	if label := content.SourceLabel(strings.Repeat("a", 40) + strings.Repeat("-", 30) + "b"); strings.Contains(label, "--") {
		t.Errorf("label %q keeps the dashes at its cut", label)
	}
	tests := map[string]string{
		"a dash at the cut":                 strings.Repeat("a", 241) + "-" + strings.Repeat("b", 11),
		"dots and dashes at the cut":        strings.Repeat("a", 200) + ".b" + strings.Repeat("-", 50) + "c",
		"a dot at the cut":                  strings.Repeat("a", 241) + ".bbbbbbbbbbb",
		"dashes at the cut of the label":    strings.Repeat("a", 40) + strings.Repeat("-", 30) + "b",
		"a dot at the cut of the label":     strings.Repeat("a", 51) + "." + strings.Repeat("b", 20),
		"63 characters, a label as it is":   strings.Repeat("a", 63),
		"64 characters, too long a label":   strings.Repeat("a", 64),
		"242 characters, which still fit":   strings.Repeat("a", 242),
		"243 characters, one too many":      strings.Repeat("a", 243),
		"253 characters":                    strings.Repeat("a", 253),
		"one character":                     "a",
		"dots and dashes all over the name": strings.Repeat("a.b-", 63) + "c",
	}
	for name, source := range tests {
		t.Run(name, func(t *testing.T) { checkNames(t, source, hash) })
	}
}

func TestNamesDifferByContentAndBySource(t *testing.T) {
	names := map[string]string{}
	for _, source := range []string{"app", "app-1", "web", strings.Repeat("a", 253), strings.Repeat("a", 252) + "b"} {
		for _, c := range []content.Content{plain, mixed, empty, tls} {
			for salt := range 3 {
				name := content.RevisionName(source, c.Hash(), salt)
				if other, taken := names[name]; taken {
					t.Errorf("%s and %s are both called %s", source, other, name)
				}
				names[name] = source
			}
		}
	}
}

// FuzzNames checks names of any source that the API server would take.
func FuzzNames(f *testing.F) {
	f.Add("app", "content")
	f.Add(strings.Repeat("a", 241)+"-.b", "")
	f.Add(strings.Repeat("a.b-", 63)+"c", "x")
	f.Fuzz(func(t *testing.T, source, data string) {
		if len(validation.IsDNS1123Subdomain(source)) > 0 {
			t.Skip("no name")
		}
		checkNames(t, source, content.Content{Data: map[string][]byte{"k": []byte(data)}}.Hash())
	})
}

// Rule 9: a lost revision is made again under its own name only with the content that the name stands for.
func TestNames(t *testing.T) {
	hash := content.Content{Kind: pin.ConfigMap, Data: map[string][]byte{"a": []byte("1")}}.Hash()
	other := content.Content{Kind: pin.ConfigMap, Data: map[string][]byte{"a": []byte("2")}}.Hash()
	tests := map[string]struct {
		source, name string
		want         bool
	}{
		"the name":                     {"app", content.RevisionName("app", hash, 0), true},
		"a salted name":                {"app", content.RevisionName("app", hash, 3), true},
		"the last salted name":         {"app", content.RevisionName("app", hash, content.MaxSalts-1), true},
		"one salt too many":            {"app", content.RevisionName("app", hash, content.MaxSalts), false},
		"the name of another content":  {"app", content.RevisionName("app", other, 0), false},
		"the name of another source's": {"web", content.RevisionName("app", hash, 0), false},
		"no name":                      {"app", "", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := content.Names(test.source, hash, test.name); got != test.want {
				t.Errorf("Names = %v", got)
			}
		})
	}
}
