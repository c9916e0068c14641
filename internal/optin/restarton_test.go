package optin_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// object makes a trigger that is not a source.
func object(kind, group, version, resource, name string, fields ...string) optin.Trigger {
	return optin.Trigger{
		Source:   pin.Source{Kind: pin.Kind(kind), Name: name},
		Resource: schema.GroupVersionResource{Group: group, Version: version, Resource: resource}, Fields: fields,
	}
}

func TestParseRestartOn(t *testing.T) {
	source := func(kind pin.Kind, name string) optin.Trigger {
		return optin.Trigger{Source: pin.Source{Kind: kind, Name: name}}
	}
	claim := func(fields ...string) optin.Trigger {
		return object("persistentvolumeclaims.v1", "", "v1", "persistentvolumeclaims", "data", fields...)
	}
	type triggers = []optin.Trigger
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
		"commas within braces":                 {"persistentvolumeclaims.v1/data{.spec['a','b']},configmap/flags", triggers{claim("{.spec['a','b']}"), source(pin.ConfigMap, "flags")}},
		"a filter":                             {`persistentvolumeclaims.v1/data{.status.conditions[?(@.type=="Ready")].status}`, triggers{claim(`{.status.conditions[?(@.type=="Ready")].status}`)}},
		"two fields of one object":             {"persistentvolumeclaims.v1/data{.b},persistentvolumeclaims.v1/data{.a}", triggers{claim("{.a}", "{.b}")}},
		"one field twice":                      {"persistentvolumeclaims.v1/data{.a},persistentvolumeclaims.v1./data{.a}", triggers{claim("{.a}")}},
		"a field and all of the object is all": {"persistentvolumeclaims.v1/data{.a},persistentvolumeclaims.v1/data", triggers{claim()}},
		"the same in the other order":          {"persistentvolumeclaims.v1/data,persistentvolumeclaims.v1/data{.a},persistentvolumeclaims.v1/data{.b}", triggers{claim()}},
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
		"a field that is open":               {"persistentvolumeclaims.v1/data{.spec", "JSONPath"},
		"a field that is none":               {"persistentvolumeclaims.v1/data{.spec[}", "JSONPath"},
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
			t.Errorf("%q gives hashes %q, read as %v: %v", text, hashes, again, err)
		}
	})
}
