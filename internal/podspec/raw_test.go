package podspec_test

import (
	"encoding/json"
	"fmt"
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

// resolveRaw resolves a spec without decoding it.
func resolveRaw(t interface{ Fatal(...any) }, spec []byte, pins pin.Set) []podspec.Resolution {
	raw := podspec.Raw{}
	if err := json.Unmarshal(spec, &raw); err != nil {
		t.Fatal(err)
	}
	resolved, err := raw.Resolve(pins)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// Rule 1: what is decoded and what is not have the same references.
func TestARawSpecResolvesAsADecodedOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec, pins := drawSpec(t), drawPins(t)
		for i := range spec.Containers {
			spec.Containers[i].Args = rapid.SliceOf(rapid.OneOf(rapid.String(), rapid.StringMatching(`["\\{}\[\],: ]{0,9}`))).Draw(t, "args")
		}
		short, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		long, err := json.MarshalIndent(spec, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		want := podspec.Resolve(spec, pins)
		for _, text := range [][]byte{short, long} {
			if diff := cmp.Diff(want, resolveRaw(t, text, pins), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%s with %v (-decoded +raw):\n%s", text, pins, diff)
			}
		}
	})
}

// FuzzRaw does the same on specs that were read from JSON, and on what is no spec, it must not panic.
func FuzzRaw(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `[]`, `{"volumes":null,"containers":[null,{"env":null,"envFrom":[null]},{"env":[{"valueFrom":null},{"valueFrom":{"secretKeyRef":null}}]}]}`,
		`{"volumes":[{"configMap":{"name":"app","items":null,"optional":true}},{"secret":{"secretName":"db","items":[ ],"optional":true}},{"projected":{"sources":null}}]}`,
		`{"volumes":{"configMap":{"name":"app"}},"containers":["env",[{"env":1}],{"env":[[{"valueFrom":{"secretKeyRef":{"name":"db"}}}]]}]}`,
		`{"containers":[{"args":["\\","\"]}","{"],"envFrom":[{"configMapRef":{"name":"app","optional":true}},{"secretRef":{"name":7}}]}]}`,
		`{"containers":[{"envFrom":[{"configMapRef":{"name":null}},{"configMapRef":{"":1,"name":"","optional":null}}]}]}`,
	} {
		f.Add([]byte(seed))
	}
	pins := gen.Pins("configmap/app=app-xxxxxxxxxx@1,secret/db=db-zzzzzzzzzz@2")
	f.Fuzz(func(t *testing.T, data []byte) {
		raw, spec := podspec.Raw{}, &corev1.PodSpec{}
		if json.Unmarshal(data, &raw) != nil {
			return
		}
		if _, err := raw.Resolve(pins); err != nil {
			// There are too many references.
			return
		}
		if json.Unmarshal(data, spec) != nil {
			return
		}
		// As the API server writes it. It writes none that it could not.
		data, err := json.Marshal(spec)
		if err != nil {
			return
		}
		got := resolveRaw(t, data, pins)
		// A volume of two types, which the API server refuses, is walked in another order.
		sorted := cmpopts.SortSlices(func(a, b podspec.Resolution) bool { return a.Pointer < b.Pointer })
		if diff := cmp.Diff(podspec.Resolve(spec, pins), got, cmpopts.EquateEmpty(), sorted); diff != "" {
			t.Fatalf("%s (-decoded +raw):\n%s", data, diff)
		}
	})
}

func TestARawSpecIsAnObject(t *testing.T) {
	for _, text := range []string{`[]`, `"x"`, `7`, `true`} {
		if err := json.Unmarshal([]byte(text), &podspec.Raw{}); err == nil {
			t.Errorf("%s is taken for a spec", text)
		}
	}
}

// A pod may have more references than confrev pins in a template, because other webhooks add some, but not any number.
func TestTooManyReferencesAreNotResolved(t *testing.T) {
	pins := gen.Pins("configmap/app=app-xxxxxxxxxx@1")
	of := func(pinned, others int) ([]podspec.Resolution, error) {
		t.Helper()
		raw := podspec.Raw{}
		spec := fmt.Sprintf(`{"containers":[{"envFrom":[%s%s{}]}]}`,
			strings.Repeat(`{"configMapRef":{"name":"app","optional":true}},`, pinned), strings.Repeat(`{"configMapRef":{"name":"other"}},`, others))
		if err := json.Unmarshal([]byte(spec), &raw); err != nil {
			t.Fatal(err)
		}
		return raw.Resolve(pins)
	}
	if resolved, err := of(2*podspec.MaxReferences, 10*podspec.MaxReferences); err != nil || len(resolved) != 4*podspec.MaxReferences {
		t.Errorf("%d are resolved: %v", len(resolved), err)
	}
	if resolved, err := of(2*podspec.MaxReferences+1, 0); err == nil || len(resolved) > 0 {
		t.Errorf("%d are resolved", len(resolved))
	}
}
