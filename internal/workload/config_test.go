package workload_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/workload"
)

const fleetConfig = `
workloads:
- group: example.com
  version: v1
  kind: Fleet
  template: spec.pods.template
  holder: {group: example.com, version: v1, kind: FleetSet}
`

func TestParseConfig(t *testing.T) {
	kind := func(name string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: name}
	}
	one := "workloads: [{group: example.com, version: v1, kind: Fleet, "
	tests := map[string]struct {
		text string
		want []workload.Kind
	}{
		"nothing":     {"", nil},
		"no kinds":    {"workloads: []", nil},
		"null":        {"workloads: null", nil},
		"one":         {fleetConfig, []workload.Kind{fleet}},
		"as JSON":     {`{"workloads":[{"group":"example.com","version":"v1","kind":"Fleet","template":"spec.pods.template","holder":{"group":"example.com","version":"v1","kind":"FleetSet"}}]}`, []workload.Kind{fleet}},
		"the default": {one + "holder: {group: example.com, version: v1, kind: FleetSet}}]", []workload.Kind{{GVK: kind("Fleet"), Path: "spec.template", Holder: fleet.Holder}}},
		"a holder with a path": {one + "holder: {group: example.com, version: v1, kind: FleetSet, template: data.spec.template}}]", []workload.Kind{{
			GVK: kind("Fleet"), Path: "spec.template", Holder: workload.HolderKind{GVK: kind("FleetSet"), Path: "data.spec.template"}}}},
		"a holder that confrev knows": {one + "holder: {group: apps, version: v1, kind: ControllerRevision}}]", []workload.Kind{{
			GVK: kind("Fleet"), Path: "spec.template", Holder: workload.ControllerRevision}}},
		"a known holder needs no path": {one + "holder: {group: batch, version: v1, kind: Job, template: x.y}}]", []workload.Kind{{
			GVK: kind("Fleet"), Path: "spec.template", Holder: workload.Job}}},
		"two": {"workloads: [{group: example.com, version: v1beta2, kind: A, holder: {group: apps, version: v1, kind: ReplicaSet}}, {group: example.com, version: v1alpha1, kind: B, holder: {group: apps, version: v1, kind: ReplicaSet}}]", []workload.Kind{
			{GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1beta2", Kind: "A"}, Path: "spec.template", Holder: workload.ReplicaSet},
			{GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1alpha1", Kind: "B"}, Path: "spec.template", Holder: workload.ReplicaSet},
		}},
		"a kind of the same name in another group": {"workloads: [{group: example.com, version: v1, kind: Deployment, holder: {group: apps, version: v1, kind: ReplicaSet}}]", []workload.Kind{
			{GVK: kind("Deployment"), Path: "spec.template", Holder: workload.ReplicaSet}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := workload.ParseConfig([]byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMistakesInTheConfigAreToldStrictly(t *testing.T) {
	tests := map[string]struct{ from, to, quoted string }{
		"a field that is unknown":       {"template: spec", "templatePath: spec", "templatePath"},
		"one at the top":                {"workloads:", "extra: 1\nworkloads:", "extra"},
		"one of the holder":             {"kind: FleetSet", "kind: FleetSet, size: 1", "size"},
		"a field that is there twice":   {"  kind: Fleet\n", "  kind: Fleet\n  kind: Fleet\n", "kind"},
		"no YAML":                       {"workloads:", "workloads: [", ""},
		"a list in the place of a map":  {"workloads:\n-", "- workloads:\n -", ""},
		"no kind":                       {"  kind: Fleet\n", "", `workloads[0]: kind ""`},
		"a resource, not a kind":        {"kind: Fleet\n", "kind: fleets\n", `"fleets"`},
		"no version":                    {"  version: v1\n", "", `version ""`},
		"a version with its group":      {"  version: v1\n", "  version: example.com/v1\n", "example.com/v1"},
		"a path that begins with a dot": {"spec.pods.template", ".spec.template", ".spec.template"},
		"a JSON pointer":                {"spec.pods.template", "/spec/template", "/spec/template"},
		"a path of a list":              {"spec.pods.template", "spec.pods[0].template", "spec.pods[0].template"},
		"no holder":                     {"  holder: {group: example.com, version: v1, kind: FleetSet}\n", "", `kind ""`},
		"a holder without a version":    {"holder: {group: example.com, version: v1, ", "holder: {group: example.com, ", `version "" of FleetSet`},
		"a holder with a bad path":      {"kind: FleetSet}", "kind: FleetSet, template: a..b}", "a..b"},
		"a kind that confrev knows":     {"group: example.com\n  version: v1\n  kind: Fleet\n", "group: apps\n  version: v1\n  kind: Deployment\n", "Deployment.apps"},
		"one of another version":        {"group: example.com\n  version: v1\n  kind: Fleet\n", "group: apps\n  version: v1beta1\n  kind: Deployment\n", "Deployment.apps"},
		"Argo's":                        {"group: example.com\n  version: v1\n  kind: Fleet\n", "group: argoproj.io\n  version: v1alpha1\n  kind: Rollout\n", "Rollout.argoproj.io"},
		"a kind that is there twice":    {"workloads:\n", "workloads:\n- {group: example.com, version: v2, kind: Fleet, holder: {group: apps, version: v1, kind: ReplicaSet}}\n", "workloads[1]: Fleet.example.com"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(fleetConfig, test.from, test.to, 1)
			if text == fleetConfig {
				t.Fatal("nothing was changed")
			}
			_, err := workload.ParseConfig([]byte(text))
			if err == nil || !strings.Contains(err.Error(), test.quoted) {
				t.Errorf("error %v, want one about %s", err, test.quoted)
			}
		})
	}
	const same = fleetConfig + "- {group: example.com, version: v1, kind: Armada, holder: {group: example.com, version: v1, kind: FleetSet%s}}\n"
	for template, want := range map[string]string{"": "", ", template: spec.template": "", ", template: data.template": "workloads[1]: holders of kind FleetSet.example.com"} {
		kinds, err := workload.ParseConfig(fmt.Appendf(nil, same, template))
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) || err == nil && len(kinds) != 2 {
			t.Errorf("two kinds of one holder, %q: %v, %v", template, kinds, err)
		}
	}
	_, err := workload.ParseConfig([]byte("workloads: [{version: x, kind: A}, {version: v1, kind: b}]"))
	if err == nil || !strings.Contains(err.Error(), "workloads[0]") || !strings.Contains(err.Error(), "workloads[1]") {
		t.Errorf("not all mistakes are told: %v", err)
	}
}

// FuzzParseConfig checks that what is accepted can be worked with.
func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(fleetConfig))
	f.Add([]byte(`{"workloads":[{}]}`))
	f.Add([]byte("workloads: [null]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		kinds, err := workload.ParseConfig(data)
		if err != nil {
			return
		}
		for _, kind := range kinds {
			if kind.Path == "" || strings.Contains(kind.TemplatePointer(), "//") || kind.GVK.Kind == "" || kind.Holder.GVK.Kind == "" {
				t.Errorf("accepted %+v", kind)
			}
			if _, err := kind.Uses(kind.New()); err != nil {
				t.Errorf("%s: %v", kind.GVK, err)
			}
			kind.Holder.Reduce(kind.Holder.New())
		}
	})
}
