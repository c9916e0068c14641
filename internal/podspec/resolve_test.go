package podspec_test

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/test/gen"
)

// Rule 1: a reference to a whole revision is not optional in the pod, or a lost revision would start it with nothing.
func TestResolveRequiresWholeRevisions(t *testing.T) {
	pins := gen.Pins("configmap/app=app-xxxxxxxxxx@1,secret/db=db-zzzzzzzzzz@2")
	lenient, strict := gen.Optional(true), gen.Optional(false)
	tests := map[string]struct{ spec, want *corev1.PodSpec }{
		"envFrom":                        {gen.PodSpec(gen.EnvFrom("configmap/app", lenient)), gen.PodSpec(gen.EnvFrom("configmap/app-xxxxxxxxxx", strict))},
		"envFrom of a Secret":            {gen.PodSpec(gen.EnvFrom("secret/db", lenient)), gen.PodSpec(gen.EnvFrom("secret/db-zzzzzzzzzz", strict))},
		"a volume":                       {gen.PodSpec(gen.Volume("configmap/app", lenient)), gen.PodSpec(gen.Volume("configmap/app-xxxxxxxxxx", strict))},
		"a volume of a Secret":           {gen.PodSpec(gen.Volume("secret/db", lenient)), gen.PodSpec(gen.Volume("secret/db-zzzzzzzzzz", strict))},
		"a part of a projected volume":   {gen.PodSpec(gen.Projected(gen.Part("secret/db", lenient))), gen.PodSpec(gen.Projected(gen.Part("secret/db-zzzzzzzzzz", strict)))},
		"what the template names":        {gen.PodSpec(gen.EnvFrom("configmap/app-xxxxxxxxxx", lenient)), gen.PodSpec(gen.EnvFrom("configmap/app-xxxxxxxxxx", strict))},
		"a volume with items":            {gen.PodSpec(gen.Volume("configmap/app", gen.Items("a"), lenient)), gen.PodSpec(gen.Volume("configmap/app-xxxxxxxxxx", gen.Items("a"), lenient))},
		"a part with items":              {gen.PodSpec(gen.Projected(gen.Part("configmap/app", gen.Items("a"), lenient))), gen.PodSpec(gen.Projected(gen.Part("configmap/app-xxxxxxxxxx", gen.Items("a"), lenient)))},
		"a key":                          {gen.PodSpec(gen.Env("configmap/app", "a", lenient)), gen.PodSpec(gen.Env("configmap/app-xxxxxxxxxx", "a", lenient))},
		"what says that it is required":  {gen.PodSpec(gen.EnvFrom("configmap/app", strict)), gen.PodSpec(gen.EnvFrom("configmap/app-xxxxxxxxxx", strict))},
		"what says nothing":              {gen.PodSpec(gen.EnvFrom("configmap/app")), gen.PodSpec(gen.EnvFrom("configmap/app-xxxxxxxxxx"))},
		"what is not pinned":             {gen.PodSpec(gen.EnvFrom("configmap/web", lenient)), gen.PodSpec(gen.EnvFrom("configmap/web", lenient))},
		"a revision of the other kind":   {gen.PodSpec(gen.EnvFrom("secret/app-xxxxxxxxxx", lenient)), gen.PodSpec(gen.EnvFrom("secret/app-xxxxxxxxxx", lenient))},
		"an init container":              {gen.PodSpec(gen.InitContainer("init", gen.EnvFrom("configmap/app", lenient))), gen.PodSpec(gen.InitContainer("init", gen.EnvFrom("configmap/app-xxxxxxxxxx", strict)))},
		"an ephemeral container is none": {gen.PodSpec(gen.EphemeralContainer("debug", gen.EnvFrom("configmap/app", lenient))), gen.PodSpec(gen.EphemeralContainer("debug", gen.EnvFrom("configmap/app", lenient)))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			podspec.Resolve(test.spec, pins)
			if diff := cmp.Diff(test.want, test.spec); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What Resolve returns is a patch that gives the same, and resolving again changes nothing.
func TestResolutionsAreAPatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec, pins := drawSpec(t), drawPins(t)
		raw, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		var patch []map[string]any
		for _, r := range podspec.Resolve(spec, pins) {
			patch = append(patch, map[string]any{"op": "replace", "path": r.Pointer, "value": r.Value})
		}
		if len(patch) > 0 {
			text, err := json.Marshal(patch)
			if err != nil {
				t.Fatal(err)
			}
			decoded, err := jsonpatch.DecodePatch(text)
			if err != nil {
				t.Fatal(err)
			}
			if raw, err = decoded.Apply(raw); err != nil {
				t.Fatal(err)
			}
		}
		got := &corev1.PodSpec{}
		if err := json.Unmarshal(raw, got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(spec, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("of %v (-resolved +patched):\n%s", pins, diff)
		}
		if again := podspec.Resolve(spec, pins); len(again) > 0 {
			t.Fatalf("resolved twice: %v", again)
		}
	})
}
