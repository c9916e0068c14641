package optin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// object makes a trigger that is not a source.
func object(kind, group, version, resource, name string, fields ...optin.Field) optin.Trigger {
	return optin.Trigger{
		Source:   pin.Source{Kind: pin.Kind(kind), Name: name},
		Resource: schema.GroupVersionResource{Group: group, Version: version, Resource: resource}, Fields: fields,
	}
}

func TestParseRestartOn(t *testing.T) {
	source := func(kind pin.Kind, name string) optin.Trigger {
		return optin.Trigger{Source: pin.Source{Kind: kind, Name: name}}
	}
	claim := func(fields ...optin.Field) optin.Trigger {
		return object("persistentvolumeclaims.v1", "", "v1", "persistentvolumeclaims", "data", fields...)
	}
	type triggers = []optin.Trigger
	longest, deepest := "{."+strings.Repeat("a", 509)+"}", "{"+strings.Repeat(".a", 32)+"}"
	tests := map[string]struct {
		text string
		want triggers
	}{
		"nothing":                              {"", nil},
		"only spaces and commas":               {" , ,", nil},
		"a ConfigMap":                          {"configmap/flags", triggers{source(pin.ConfigMap, "flags")}},
		"a Secret":                             {"secret/db", triggers{source(pin.Secret, "db")}},
		"several, with spaces":                 {" configmap/flags , secret/db,", triggers{source(pin.ConfigMap, "flags"), source(pin.Secret, "db")}},
		"a ConfigMap in the API's form":        {"configmaps.v1/flags", triggers{source(pin.ConfigMap, "flags")}},
		"a Secret in the API's form":           {"secrets.v1./db", triggers{source(pin.Secret, "db")}},
		"an object of the core group":          {"persistentvolumeclaims.v1/data", triggers{claim()}},
		"the same with the group's dot":        {"persistentvolumeclaims.v1./data", triggers{claim()}},
		"an object of another group":           {"deployments.v1.apps/web", triggers{object("deployments.v1.apps", "apps", "v1", "deployments", "web")}},
		"a group of several parts":             {"secretproviderclasses.v1.secrets-store.csi.x-k8s.io/vault", triggers{object("secretproviderclasses.v1.secrets-store.csi.x-k8s.io", "secrets-store.csi.x-k8s.io", "v1", "secretproviderclasses", "vault")}},
		"a version that is not stable":         {"widgets.v1alpha1.example.com/w", triggers{object("widgets.v1alpha1.example.com", "example.com", "v1alpha1", "widgets", "w")}},
		"a name with colons (cluster-scoped)":  {"clusterroles.v1.rbac.authorization.k8s.io/system:node", triggers{object("clusterroles.v1.rbac.authorization.k8s.io", "rbac.authorization.k8s.io", "v1", "clusterroles", "system:node")}},
		"a ConfigMap of another group":         {"configmaps.v1.example.com/x", triggers{object("configmaps.v1.example.com", "example.com", "v1", "configmaps", "x")}},
		"a field":                              {"persistentvolumeclaims.v1/data{.spec.volumeName}", triggers{claim("{.spec.volumeName}")}},
		"a field behind a space":               {"persistentvolumeclaims.v1/data {.spec.volumeName}", triggers{claim("{.spec.volumeName}")}},
		"a name in quotes":                     {`persistentvolumeclaims.v1/data{.spec['a.b/c']},configmap/flags`, triggers{claim("{.spec['a.b/c']}"), source(pin.ConfigMap, "flags")}},
		"a name in other quotes":               {`persistentvolumeclaims.v1/data{["spec"]["a b"]}`, triggers{claim(`{["spec"]["a b"]}`)}},
		"an element of a list":                 {`persistentvolumeclaims.v1/data{.status.conditions[0].status}`, triggers{claim(`{.status.conditions[0].status}`)}},
		"two fields of one object":             {"persistentvolumeclaims.v1/data{.b},persistentvolumeclaims.v1/data{.a}", triggers{claim("{.a}", "{.b}")}},
		"one field twice":                      {"persistentvolumeclaims.v1/data{.a},persistentvolumeclaims.v1./data{.a}", triggers{claim("{.a}")}},
		"a field and all of the object is all": {"persistentvolumeclaims.v1/data{.a},persistentvolumeclaims.v1/data", triggers{claim()}},
		"the same in the other order":          {"persistentvolumeclaims.v1/data,persistentvolumeclaims.v1/data{.a},persistentvolumeclaims.v1/data{.b}", triggers{claim()}},
		"the longest field":                    {"persistentvolumeclaims.v1/data" + longest, triggers{claim(optin.Field(longest))}},
		"the deepest field":                    {"persistentvolumeclaims.v1/data" + deepest, triggers{claim(optin.Field(deepest))}},
		"a source twice":                       {"configmap/flags,configmaps.v1/flags", triggers{source(pin.ConfigMap, "flags")}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := optin.ParseRestartOn(test.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, trigger := range got {
				if trigger.IsSource() != (trigger.Kind == pin.ConfigMap || trigger.Kind == pin.Secret) {
					t.Errorf("%s is a source: %v", trigger, trigger.IsSource())
				}
			}
		})
	}
}

func TestWhatIsNoTriggerIsToldAndTheRestIsRead(t *testing.T) {
	tests := map[string]struct{ text, quoted string }{
		"a name alone":                       {"flags", `"flags"`},
		"no version":                         {"persistentvolumeclaims/data", `"persistentvolumeclaims/data"`},
		"a kind":                             {"PersistentVolumeClaim/data", "PersistentVolumeClaim/data"},
		"no name":                            {"deployments.v1.apps/", `"deployments.v1.apps/"`},
		"a namespace":                        {"deployments.v1.apps/other/web", "other/web"},
		"a version that is none":             {"deployments.apps/web", "deployments.apps/web"},
		"a name with an equals sign":         {"widgets.v1.example.com/a=b", "a=b"},
		"a name with an at sign":             {"widgets.v1.example.com/a@1", "a@1"},
		"a name with a space":                {"widgets.v1.example.com/a b", "a b"},
		"a field of a ConfigMap":             {"configmap/flags{.data.a}", "configmap/flags{.data.a}"},
		"a field of a ConfigMap, other form": {"configmaps.v1/flags{.data.a}", "as a whole"},
		"a field of a Secret":                {"secrets.v1/db{.data.a}", "as a whole"},
		"a field that is open":               {"persistentvolumeclaims.v1/data{.spec", "want the path of one field"},
		"a field that is none":               {"persistentvolumeclaims.v1/data{.spec[}", "want the path of one field"},
		"no step":                            {"persistentvolumeclaims.v1/data{}", "want the path of one field"},
		"the whole object":                   {"persistentvolumeclaims.v1/data{.}", "want the path of one field"},
		"an element of no list":              {"persistentvolumeclaims.v1/data{[0]}", "want the path of one field"},
		"a filter":                           {`persistentvolumeclaims.v1/data{.status.conditions[?(@.type=="Ready")].status}`, "want the path of one field"},
		"a union":                            {"persistentvolumeclaims.v1/data{.spec['a','b']}", "want the path of one field"},
		"a union of elements":                {"persistentvolumeclaims.v1/data{.spec.a[0,1]}", "want the path of one field"},
		"a slice":                            {"persistentvolumeclaims.v1/data{.spec.a[0:2]}", "want the path of one field"},
		"an element from the end":            {"persistentvolumeclaims.v1/data{.spec.a[-1]}", "want the path of one field"},
		"all fields":                         {"persistentvolumeclaims.v1/data{.spec.*}", "want the path of one field"},
		"all elements":                       {"persistentvolumeclaims.v1/data{.spec.a[*]}", "want the path of one field"},
		"any depth":                          {"persistentvolumeclaims.v1/data{..name}", "want the path of one field"},
		"a range":                            {"persistentvolumeclaims.v1/data{range .spec.a}{.b}{end}", "want the path of one field"},
		"two paths":                          {"persistentvolumeclaims.v1/data{.spec.a}{.spec.b}", "want the path of one field"},
		"text":                               {`persistentvolumeclaims.v1/data{"x"}`, "want the path of one field"},
		"metadata":                           {"persistentvolumeclaims.v1/data{.metadata}", "metadata cannot be followed"},
		"an annotation":                      {"persistentvolumeclaims.v1/data{.metadata.annotations.x}", "metadata cannot be followed"},
		"metadata in quotes":                 {"persistentvolumeclaims.v1/data{['metadata'].labels}", "metadata cannot be followed"},
		"metadata in other quotes":           {`persistentvolumeclaims.v1/data{["metadata"].labels}`, "metadata cannot be followed"},
		"a long path":                        {"persistentvolumeclaims.v1/data{." + strings.Repeat("a", 512) + "}", "longer than 512 bytes"},
		"a deep path":                        {"persistentvolumeclaims.v1/data{" + strings.Repeat(".a", 33) + "}", "more than 32 steps"},
		"a long item":                        {"persistentvolumeclaims.v1/data{." + strings.Repeat("a", 1024) + "}", "longer than 1024 bytes"},
		"a long name of a source":            {"configmap/" + strings.Repeat("a", 254), "is not an object"},
		"a long name of an object":           {"widgets.v1.example.com/" + strings.Repeat("a", 254), "is not an object"},
		"a name that goes up":                {"widgets.v1.example.com/..", "is not an object"},
		"a name that moves the cursor":       {"widgets.v1.example.com/a\x1b[2J", `a\x1b[2J`},
		"only a field":                       {"{.spec}", `"{.spec}"`},
		"braces that close only":             {"configmap/a}", `"configmap/a}"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := optin.ParseRestartOn("secret/first," + test.text)
			if err == nil || !strings.Contains(err.Error(), test.quoted) {
				t.Errorf("error %v, want one about %q", err, test.quoted)
			}
			if len(got) != 1 || got[0].String() != "secret/first" {
				t.Errorf("read %+v", got)
			}
		})
	}
	_, err := optin.ParseRestartOn("one,configmap/a,two")
	if err == nil || !strings.Contains(err.Error(), `"one"`) || !strings.Contains(err.Error(), `"two"`) {
		t.Errorf("not both slips are named: %v", err)
	}
}

// FuzzParseRestartOn checks that every trigger can stand in the annotation of hashes, and is there once.
func FuzzParseRestartOn(f *testing.F) {
	for _, seed := range []string{
		"configmap/a,secret/b", "persistentvolumeclaims.v1./data{.spec['a','b']}", "clusterroles.v1.rbac.authorization.k8s.io/system:node",
		"a.v1/b{.c},a.v1/b{.d}", "{},{", "}", ",,",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		triggers, _ := optin.ParseRestartOn(text)
		hashes := pin.Set{}
		for _, trigger := range triggers {
			if _, twice := hashes[trigger.Source]; twice {
				t.Errorf("%q has %s twice", text, trigger)
			}
			hashes[trigger.Source] = pin.Pin{Revision: "abc", Number: 1}
		}
		again, err := pin.ParseHashes(hashes.String())
		if err != nil || !cmp.Equal(again, hashes) {
			t.Errorf("%q results in hashes %q, read as %v: %v", text, hashes, again, err)
		}
	})
}

// One annotation asks for so much and no more, and what is beyond is not read.
func TestRestartOnIsBounded(t *testing.T) {
	var items, fields []string
	for i := range 40 {
		items = append(items, fmt.Sprintf("configmap/app-%d", i))
		fields = append(fields, fmt.Sprintf("persistentvolumeclaims.v1/data{.spec.f%d}", i))
	}
	got, err := optin.ParseRestartOn(strings.Join(items, ","))
	if len(got) != 32 || err == nil || err.Error() != "it has more than 32 items; the rest are ignored" {
		t.Errorf("of 40 items %d are read: %v", len(got), err)
	}
	got, err = optin.ParseRestartOn(strings.Join(fields[:20], ","))
	if len(got) != 1 || len(got[0].Fields) != 16 || err == nil || !strings.Contains(err.Error(), "has more than 16 fields") {
		t.Errorf("of 20 fields %+v are read: %v", got, err)
	}
	got, err = optin.ParseRestartOn(strings.Repeat(strings.Repeat("x", 1000)+",", 10_000))
	if len(got) != 0 || err == nil || len(err.Error()) > 10_000 {
		t.Errorf("%d triggers, %d bytes of complaints", len(got), len(err.Error()))
	}
}

// What is beyond the bounds is not even split.
func TestRestartOnCostsNoMoreThanItsBounds(t *testing.T) {
	text := strings.Repeat("a,", 2_000_000)
	const most = 8_000_000
	if got := allocated(most, func() { _, _ = optin.ParseRestartOn(text) }); got > most {
		t.Errorf("%d bytes for a text of %d", got, len(text))
	}
}

func TestFieldOf(t *testing.T) {
	object := map[string]any{
		"spec":   map[string]any{"a": "1", "n": nil, "list": []any{"x", map[string]any{"k": "y"}}, "a.b/c": "z"},
		"status": "s",
	}
	tests := map[string]struct {
		field optin.Field
		want  any
		found bool
	}{
		"a name":                     {"{.spec.a}", "1", true},
		"a name in quotes":           {"{.spec['a.b/c']}", "z", true},
		"an element":                 {"{.spec.list[0]}", "x", true},
		"below an element":           {`{["spec"].list[1].k}`, "y", true},
		"null":                       {"{.spec.n}", nil, true},
		"not there":                  {"{.spec.b}", nil, false},
		"below what is not there":    {"{.spec.b.c[0].d}", nil, false},
		"below null":                 {"{.spec.n.c}", nil, false},
		"below text":                 {"{.status.c}", nil, false},
		"an element of text":         {"{.status[0]}", nil, false},
		"an element of a map":        {"{.spec[0]}", nil, false},
		"a name of a list":           {"{.spec.list.x}", nil, false},
		"an element beyond the last": {"{.spec.list[2]}", nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			field, err := optin.ParseField(string(test.field))
			if err != nil {
				t.Fatal(err)
			}
			if got, found := field.Of(object); found != test.found || !cmp.Equal(got, test.want) {
				t.Errorf("got %v, %v", got, found)
			}
		})
	}
}

// A path that is accepted leads to one value at most, and never into metadata.
func FuzzField(f *testing.F) {
	for _, seed := range []string{"{.spec.a}", "{['spec'][0]}", `{["a"]}`, "{.metadata}", "{..a}", "{.a['b','c']}", "{['meta\x00data']}"} {
		f.Add(seed)
	}
	object := map[string]any{"metadata": "secret", "spec": map[string]any{"a": []any{"x"}}}
	f.Fuzz(func(t *testing.T, text string) {
		field, err := optin.ParseField(text)
		if err != nil {
			return
		}
		if value, _ := field.Of(object); value == "secret" {
			t.Errorf("%q leads into metadata", text)
		}
	})
}
