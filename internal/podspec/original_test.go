package podspec_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/test/gen"
)

func TestOriginal(t *testing.T) {
	pins := gen.Pins("configmap/app=app-x@1,secret/db=db-y@2")
	written := gen.PodSpec(gen.EnvFrom("configmap/app"), gen.Volume("secret/db"), gen.Env("configmap/web", "k"))
	tests := map[string]struct {
		spec *corev1.PodSpec
		pins pin.Set
		want *corev1.PodSpec // nil when the spec itself is given
	}{
		"all is injected":                      {gen.PodSpec(gen.EnvFrom("configmap/app-x"), gen.Volume("secret/db-y"), gen.Env("configmap/web", "k")), pins, written},
		"some of it":                           {gen.PodSpec(gen.EnvFrom("configmap/app"), gen.Volume("secret/db-y"), gen.Env("configmap/web", "k")), pins, written},
		"none of it":                           {written, pins, nil},
		"no pins":                              {written, nil, nil},
		"nothing at all":                       {gen.PodSpec(), pins, nil},
		"a Secret of a ConfigMap's revision":   {gen.PodSpec(gen.EnvFrom("secret/app-x")), pins, nil},
		"the revision of an earlier pin stays": {gen.PodSpec(gen.EnvFrom("configmap/app-w")), pins, nil},
		"ephemeral containers stay":            {gen.PodSpec(gen.EphemeralContainer("debug", gen.EnvFrom("configmap/app-x"))), pins, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := test.spec.DeepCopy()
			got := podspec.Original(test.spec, test.pins)
			if diff := cmp.Diff(before, test.spec); diff != "" {
				t.Fatalf("the template was changed, and it may be the cache's (-before +after):\n%s", diff)
			}
			if test.want == nil {
				if got != test.spec {
					t.Error("a copy was made for nothing")
				}
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// drawPins draws pins of the sources that drawSpec draws, to revisions that it does not.
func drawPins(t *rapid.T) pin.Set {
	pins := pin.Set{}
	for _, kind := range pin.Kinds {
		for _, name := range []string{"app", "web", "db", "a.b"} {
			if source := (pin.Source{Kind: kind, Name: name}); rapid.Bool().Draw(t, "pinned "+source.String()) {
				pins[source] = pin.Pin{Revision: name + "-" + string(kind) + "-rev", Number: 1}
			}
		}
	}
	return pins
}

func TestInjectionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec, pins := drawSpec(t), drawPins(t)
		injected := spec.DeepCopy()
		replaced := podspec.Rewrite(injected, pins.Resolve)
		if diff := cmp.Diff(spec, podspec.Original(injected, pins)); diff != "" {
			t.Fatalf("of %v (-written +original):\n%s", pins, diff)
		}
		if (len(replaced) > 0) == (podspec.Original(injected, pins) == injected) {
			t.Fatalf("with %d injected references, a copy: %v", len(replaced), podspec.Original(injected, pins) != injected)
		}
	})
}

// replace does what "replace" of a JSON patch does (RFC 6902): the place must be there. Pointers of pod specs need no
// escapes.
func replace(t *rapid.T, node any, r podspec.Replacement) {
	fields := strings.Split(strings.TrimPrefix(r.Pointer, "/"), "/")
	for _, field := range fields[:len(fields)-1] {
		switch n := node.(type) {
		case map[string]any:
			node = n[field]
		case []any:
			i, err := strconv.Atoi(field)
			if err != nil || i >= len(n) {
				t.Fatalf("%s leads nowhere", r.Pointer)
			}
			node = n[i]
		}
	}
	parent, is := node.(map[string]any)
	if last := fields[len(fields)-1]; !is || parent[last] == nil {
		t.Fatalf("%s leads nowhere", r.Pointer)
	} else {
		parent[last] = r.Name
	}
}

// The replacements are what goes into a JSON patch: applied to the spec as the API server has it, they give the same as
// rewriting it here.
func TestReplacementsAreAPatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec, pins := drawSpec(t), drawPins(t)
		rewritten := spec.DeepCopy()
		replaced := podspec.Rewrite(rewritten, pins.Resolve)
		data, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		var tree any
		if err := json.Unmarshal(data, &tree); err != nil {
			t.Fatal(err)
		}
		places := map[string]bool{}
		for _, r := range replaced {
			if places[r.Pointer] {
				t.Fatalf("a place is replaced twice: %v", replaced)
			}
			places[r.Pointer] = true
			replace(t, tree, r)
		}
		patched, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		got := &corev1.PodSpec{}
		if err := json.Unmarshal(patched, got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(rewritten, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-rewritten +patched):\n%s", diff)
		}
	})
}
