package podspec_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/test/gen"
)

// drawSpec draws a pod spec with references of all forms, some without a name, and with things that are none.
func drawSpec(t *rapid.T) *corev1.PodSpec {
	source := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"configmap/", "secret/"}).Draw(t, "kind") +
			rapid.SampledFrom([]string{"app", "web", "db", "a.b", ""}).Draw(t, "name")
	})
	options := rapid.SliceOfN(rapid.SampledFrom([]gen.RefOption{
		gen.Optional(true), gen.Optional(false), gen.Items(), gen.Items("a"), gen.Items("b", "a"),
	}), 0, 2)
	part := rapid.Custom(func(t *rapid.T) corev1.VolumeProjection {
		if rapid.IntRange(0, 5).Draw(t, "other part") == 0 {
			return corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{}}
		}
		return gen.Part(source.Draw(t, "source"), options.Draw(t, "options")...)
	})
	environment := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) gen.PodSpecModifier {
		switch rapid.IntRange(0, 4).Draw(t, "form") {
		case 0:
			return fieldRef
		case 1, 2:
			return gen.EnvFrom(source.Draw(t, "source"), options.Draw(t, "options")...)
		default:
			return gen.Env(source.Draw(t, "source"), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"), options.Draw(t, "options")...)
		}
	}), 0, 4)
	return gen.PodSpec(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) gen.PodSpecModifier {
		switch rapid.IntRange(0, 6).Draw(t, "place") {
		case 0:
			return emptyDir
		case 1:
			return gen.Volume(source.Draw(t, "source"), options.Draw(t, "options")...)
		case 2:
			return gen.Projected(rapid.SliceOfN(part, 0, 4).Draw(t, "parts")...)
		case 3:
			return gen.InitContainer("init", environment.Draw(t, "environment")...)
		case 4:
			return gen.Container("more", environment.Draw(t, "environment")...)
		case 5:
			return gen.EphemeralContainer("debug", environment.Draw(t, "environment")...)
		default:
			return func(s *corev1.PodSpec) {
				for _, modify := range environment.Draw(t, "environment") {
					modify(s)
				}
			}
		}
	}), 0, 8).Draw(t, "spec")...)
}

// inJSON counts the references of a spec in its JSON form: another walk, which shares nothing with the one under test.
func inJSON(t interface{ Fatal(...any) }, spec *corev1.PodSpec) map[pin.Source]int {
	data, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	delete(tree, "ephemeralContainers")
	found := map[pin.Source]int{}
	for _, place := range []struct {
		kind pin.Kind
		path string
	}{
		{pin.ConfigMap, "volumes configMap name"},
		{pin.Secret, "volumes secret secretName"},
		{pin.ConfigMap, "volumes projected sources configMap name"},
		{pin.Secret, "volumes projected sources secret name"},
		{pin.ConfigMap, "* envFrom configMapRef name"},
		{pin.Secret, "* envFrom secretRef name"},
		{pin.ConfigMap, "* env valueFrom configMapKeyRef name"},
		{pin.Secret, "* env valueFrom secretKeyRef name"},
	} {
		for _, containers := range []string{"containers", "initContainers"} {
			path, each := strings.CutPrefix(place.path, "*")
			if each {
				path = containers + path
			}
			collect(tree, strings.Fields(path), func(name string) { found[pin.Source{Kind: place.kind, Name: name}]++ })
			if !each {
				break
			}
		}
	}
	return found
}

func collect(node any, path []string, add func(string)) {
	switch n := node.(type) {
	case []any:
		for _, item := range n {
			collect(item, path, add)
		}
	case map[string]any:
		if len(path) > 0 {
			collect(n[path[0]], path[1:], add)
		}
	case string:
		if n != "" && len(path) == 0 {
			add(n)
		}
	}
}

// toRevision resolves the sources that are known to names that no drawn source has.
func toRevision(known func(pin.Source) bool) func(pin.Source) (string, bool) {
	return func(s pin.Source) (string, bool) { return s.Name + "-" + string(s.Kind) + "-rev", known(s) }
}

// checkWalk holds the properties of finding and rewriting on any spec.
func checkWalk(t interface {
	Fatal(...any)
	Errorf(string, ...any)
}, spec *corev1.PodSpec, known func(pin.Source) bool) {
	before := spec.DeepCopy()
	found := inJSON(t, spec)
	uses := podspec.Uses(spec)
	total, expected, renamed := 0, 0, map[pin.Source]int{}
	resolve := toRevision(known)
	for source, n := range found {
		total += n
		name, ok := resolve(source)
		if ok {
			expected += n
			source.Name = name
		}
		renamed[source] += n
	}
	if n := podspec.References(spec); n != total {
		t.Errorf("References = %d, the JSON has %d: %v", n, total, found)
	}
	if len(uses) != len(found) || !slices.IsSortedFunc(uses, func(a, b podspec.Use) int { return a.Compare(b.Source) }) {
		t.Errorf("Uses = %+v, want these, sorted: %v", uses, found)
	}
	for _, use := range uses {
		checkUse(t, use, found)
	}
	if n := podspec.Rewrite(spec, func(pin.Source) (string, bool) { return "never", false }); len(n) != 0 {
		t.Errorf("a resolver that knows nothing rewrote %v", n)
	}
	if diff := cmp.Diff(before, spec); diff != "" {
		t.Errorf("finding, or rewriting nothing, changed the spec (-before +after):\n%s", diff)
	}
	if n := podspec.Rewrite(spec, resolve); len(n) != expected {
		t.Errorf("rewrote %v, want %d", n, expected)
	}
	if diff := cmp.Diff(renamed, inJSON(t, spec)); diff != "" {
		t.Errorf("the references after rewriting (-want +got):\n%s", diff)
	}
	once := spec.DeepCopy()
	again := func(s pin.Source) (string, bool) {
		if _, isSource := found[s]; !isSource {
			return "", false
		}
		return resolve(s)
	}
	podspec.Rewrite(spec, again)
	if diff := cmp.Diff(once, spec); diff != "" {
		t.Errorf("rewriting twice is not rewriting once (-once +twice):\n%s", diff)
	}
}

func checkUse(t interface{ Errorf(string, ...any) }, use podspec.Use, found map[pin.Source]int) {
	if found[use.Source] == 0 || (!use.All && len(use.Keys) == 0) || (!use.Required && len(use.RequiredKeys) > 0) {
		t.Errorf("%+v is no use of %v", use, found)
	}
	for _, list := range [][]string{use.Keys, use.RequiredKeys} {
		if !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) {
			t.Errorf("keys %q are not sorted, each once", list)
		}
	}
	for _, key := range use.RequiredKeys {
		if !slices.Contains(use.Keys, key) {
			t.Errorf("%s requires key %q that it does not use", use.Source, key)
		}
	}
}

func TestFindingAndRewritingAgreeOnAnyPodSpec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		known := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"app", "web", "db", "a.b"}), rapid.ID[string]).Draw(t, "known")
		checkWalk(t, drawSpec(t), func(s pin.Source) bool { return slices.Contains(known, s.Name) })
	})
}

// FuzzRewrite does the same on specs that were read from JSON, as the API server's are.
func FuzzRewrite(f *testing.F) {
	seeds := []*corev1.PodSpec{
		{},
		gen.PodSpec(gen.EnvFrom("configmap/app"), gen.Env("secret/db", "k"), gen.InitContainer("i", gen.EnvFrom("secret/db"))),
		gen.PodSpec(gen.Volume("configmap/app", gen.Items("a")), gen.Volume("secret/db"), gen.Projected(gen.Part("configmap/app"), gen.Part("secret/"))),
	}
	for _, seed := range seeds {
		data, err := json.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, "app")
	}
	f.Add([]byte(`{"volumes":[{"configMap":null},{"projected":{"sources":null}}],"containers":[{"env":[{"valueFrom":null}],"envFrom":null}]}`), "")
	f.Fuzz(func(t *testing.T, data []byte, known string) {
		spec := &corev1.PodSpec{}
		if json.Unmarshal(data, spec) != nil {
			t.Skip("no pod spec")
		}
		checkWalk(t, spec, func(s pin.Source) bool { return s.Name == known })
	})
}
