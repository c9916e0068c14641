package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// definitions compiles the schema's definitions.
func definitions(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	text, err := annotationsSchema()
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(schemaFile, document); err != nil {
		t.Fatal(err)
	}
	all := map[string]*jsonschema.Schema{}
	for _, place := range optin.Places() {
		for _, form := range []string{"annotations", "labels"} {
			if all[place.Name+"-"+form], err = compiler.Compile(schemaFile + "#/$defs/" + place.Name + "-" + form); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

// accepted reports whether confrev can read a value where it is.
func accepted(definition, key, text string) bool {
	set := map[string]string{key: text}
	defaults := optin.Defaults{Stages: optin.Stages{"prod": {"staging"}}}
	var problems []notice.Notice
	switch definition {
	case "workload-annotations":
		problems = optin.Read(optin.Metadata{Annotations: set}, defaults).Problems
	case "workload-labels":
		problems = optin.Read(optin.Metadata{Labels: set}, defaults).Problems
	case "namespace-annotations":
		problems = optin.Read(optin.Metadata{Namespace: "prod", NamespaceAnnotations: set}, defaults).Problems
	case "namespace-labels":
		problems = optin.Read(optin.Metadata{NamespaceLabels: set}, defaults).Problems
	default:
		meta := &metav1.ObjectMeta{Annotations: set}
		if definition == "source-labels" {
			meta = &metav1.ObjectMeta{Labels: set}
		}
		if definition == "source-annotations" && (key == keys.Attach || key == keys.Protect) {
			// confrev reports nothing about other values, which have no effect.
			return text == "true" || text == "false"
		}
		_, problems = optin.Compat{}.Describe(pin.Source{Kind: pin.ConfigMap, Name: "app"}, meta)
	}
	return len(problems) == 0
}

func fits(schema *jsonschema.Schema, key, text string) bool {
	return schema.Validate(map[string]any{key: text, "app.kubernetes.io/name": "web"}) == nil
}

// examples are values that confrev can read, and others that it cannot. What the schema accepts although confrev does not is not among them: dates that
// do not exist, durations that are too long, and such.
var examples = map[string]struct{ good, bad []string }{
	keys.Track: {[]string{"all", "none", "", "configmap/app", "configmap/app, secret/db", " all ", "configmap/a" + strings.Repeat(",secret/b", 199)}, []string{
		"app", "deployment/web", "configmap/App", "configmap/app,", "All", "configmap/a" + strings.Repeat(",secret/b", 200),
	}},
	keys.Owners:      {[]string{"true", "false"}, []string{"yes", "", "True"}},
	keys.Mode:        {[]string{"revision", "restart", "attach"}, []string{"", "Revision", "reload"}},
	keys.Settle:      {[]string{"10s", "0", "0s", "1m30s", "1.5h", "-0s", "+5s", "100ms"}, []string{"soon", "5", "", "-5s", "5 s"}},
	keys.Injection:   {[]string{"admission", "template"}, []string{"", "webhook"}},
	keys.RestartOn:   {[]string{"configmap/app", "secret/db,configmap/app", "persistentvolumeclaims.v1/data{.spec.volumeName}", "", "a.v1.example.com/x", "configmap/a, , configmap/b"}, []string{"app", "deployment/web", "persistentvolumeclaims/data", "Configmap/app"}},
	keys.RotateBy:    {[]string{"rollout", "restart-at"}, []string{"", "restart"}},
	keys.Wave:        {[]string{"10", "-1", "0", "+3"}, []string{"", "first", "1.5", " 1"}},
	keys.Deadline:    {[]string{"5m", "1h30m"}, []string{"soon", "5", "", "-5m", "0"}},
	keys.Analysis:    {[]string{"error-rate", "error-rate, latency"}, []string{"", "Error", "a,,b", "a_b", "a,b,c,d,e,f,g,h,i,j,k"}},
	keys.Crashes:     {[]string{"1", "02"}, []string{"", "0", "-1", "two"}},
	keys.Advance:     {[]string{"auto", "on-deploy", "manual"}, []string{"", "never", "Manual"}},
	keys.FreezeUntil: {[]string{"2027-01-04", "2026-12-27T00:00:00Z", "2026-12-27T08:00:00+01:00"}, []string{"", "tomorrow", "2027-13-04", "04.01.2027", "2026-12-27 00:00"}},
	keys.Window:      {[]string{"0 9 * * 1-5 8h Europe/Berlin", "0 9 * * * 8h", "0 9 * * 1 8h;0 9 * * 2 8h UTC"}, []string{"", "9-17", "0 9 * * 1-5", "0 9 * * 1-5 8h UTC;", "0 9 * * 1-5 long UTC"}},
	keys.Deploys:     {[]string{"wait", "include"}, []string{"", "exclude"}},
	keys.Safety:      {[]string{"careful", "none"}, []string{"", "safe"}},
	keys.Steps:       {[]string{"1", "1,10%,50%", "1, 100%"}, []string{"", "0", "0%", "101%", "1,,2", "a", strings.Repeat("1,", 20) + "1"}},
	keys.MaxRolling:  {[]string{"5", "10%", "100%", " 5 "}, []string{"", "0", "0%", "101%", "-1", "+1", "5 %", "1,2"}},
	keys.Bake:        {[]string{"10m", "1h30m"}, []string{"", "10", "-5m", "0", "ten"}},
	keys.OnFailure:   {[]string{"none", "stop", "undo", "undo-all"}, []string{"", "rollback"}},
	keys.StopAfter:   {[]string{"1", "2"}, []string{"", "0", "-1", "one"}},
	keys.After:       {[]string{"none"}, []string{"", "staging "}},
	keys.Version:     {[]string{"42", "v1.2 of it", "ü"}, []string{"", " 42", "42 ", "\n"}},
	keys.Policy:      {[]string{"revision", "rotate", "live", "ignore", ""}, []string{"Live", "pinned"}},
	keys.Attach:      {[]string{"true", "false"}, []string{"", "yes"}},
	keys.Protect:     {[]string{"true", "false"}, []string{"", "yes"}},
	keys.Stop:        {[]string{"app-5f7d8c9b2k", ""}, nil},
	keys.Passed:      {[]string{"app-5f7d8c9b2k@3;wave=2", "app-5f7d8c9b2k@3;wave=0"}, []string{"", "app-5f7d8c9b2k", "app-5f7d8c9b2k@3", "app-5f7d8c9b2k;wave=2", "app@3;wave=-1", "app@x;wave=1"}},
	keys.Resume:      {[]string{"app-5f7d8c9b2k@3;stop=1"}, []string{"", "app-5f7d8c9b2k@3;stop=0", "app-5f7d8c9b2k@3", "@3;stop=1"}},
}

// differs reports whether a key means something else in a place.
func differs(definition, key string) bool {
	place, form, _ := strings.Cut(definition, "-")
	_, is := exceptions()[place+" "+form+" "+key]
	return is
}

// The schema and confrev agree on each annotation and label, wherever it may be.
func TestSchemaAgreesWithTheParser(t *testing.T) {
	schemas := definitions(t)
	checked := map[string]bool{}
	check := func(definition, key, text string, want bool) {
		t.Helper()
		if got := accepted(definition, key, text); got != want {
			t.Errorf("%s: confrev accepts %s=%q: %t, want %t", definition, key, text, got, want)
		}
		if got := fits(schemas[definition], key, text); got != want {
			t.Errorf("%s: the schema accepts %s=%q: %t, want %t", definition, key, text, got, want)
		}
	}
	for _, place := range optin.Places() {
		for form, known := range map[string][]string{"annotations": place.Annotations, "labels": place.Labels} {
			definition := place.Name + "-" + form
			for _, key := range known {
				checked[key] = true
				if differs(definition, key) {
					continue
				}
				for _, text := range slices.Concat(examples[key].good, values()[key].Examples) {
					check(definition, key, text, true)
				}
				for _, text := range examples[key].bad {
					check(definition, key, text, false)
				}
			}
		}
	}
	for key := range checked {
		if len(examples[key].good) == 0 || len(examples[key].bad) == 0 && key != keys.Stop {
			t.Errorf("%s has no examples", key)
		}
	}
	for text, want := range map[string]bool{"all": true, "none": true, "configmap/app": false} {
		check("workload-labels", keys.Track, text, want)
		check("namespace-labels", keys.Track, text, want)
	}
	check("namespace-labels", keys.Track, "", true)
	check("workload-labels", keys.Track, "", false)
	check("namespace-annotations", keys.After, "staging", true)
	check("namespace-annotations", keys.After, "Staging", false)
	check("namespace-annotations", keys.Owners, "true", true)
	check("namespace-annotations", keys.Owners, "1", false)
}

// The schema finds keys that confrev does not know, and accepts those that confrev writes.
func TestSchemaKnowsTheKeys(t *testing.T) {
	schemas := definitions(t)
	for definition, schema := range schemas {
		for _, key := range []string{"confrev.io/tracks", "confrev.io/", keys.DistrustBefore} {
			if fits(schema, key, "all") {
				t.Errorf("%s accepts %s", definition, key)
			}
		}
		for _, key := range optin.Written() {
			if !fits(schema, key, "x") {
				t.Errorf("%s refuses %s, which confrev writes", definition, key)
			}
		}
	}
	if fits(schemas["workload-annotations"], keys.Policy, "live") || fits(schemas["source-annotations"], keys.Track, "all") || fits(schemas["namespace-annotations"], keys.Track, "all") {
		t.Error("it accepts an annotation where it has no effect")
	}
}

// The schema never refuses what confrev accepts.
func TestSchemaIsNotStricterThanTheParser(t *testing.T) {
	schemas := definitions(t)
	known := slices.Sorted(func(yield func(string) bool) {
		for key := range examples {
			if !yield(key) {
				return
			}
		}
	})
	readable := 0
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom(known).Draw(t, "key")
		text := rapid.SampledFrom(slices.Concat(examples[key].good, examples[key].bad)).Draw(t, "value")
		for range rapid.IntRange(0, 3).Draw(t, "edits") {
			at := rapid.IntRange(0, len(text)).Draw(t, "at")
			with := rapid.StringMatching(`[ -~]{0,2}`).Draw(t, "with")
			text = text[:at] + with + text[min(len(text), at+rapid.IntRange(0, 2).Draw(t, "without")):]
		}
		for definition, schema := range schemas {
			if accepted(definition, key, text) {
				readable++
				if !fits(schema, key, text) {
					t.Fatalf("%s refuses %s=%q, which confrev accepts", definition, key, text)
				}
			}
		}
	})
	if readable < 20 {
		t.Errorf("only %d values can be read", readable)
	}
}

// Settings in the manifests of the docs fit.
func TestExamplesOfTheDocsFit(t *testing.T) {
	schemas := definitions(t)
	setting := regexp.MustCompile(`(?m)^ *(confrev\.io/[a-z-]+): ("[^"]*"|[^ #\n]+)`)
	found := 0
	err := filepath.WalkDir("../../docs", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".md") && !strings.HasSuffix(path, ".yaml") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range setting.FindAllStringSubmatch(string(text), -1) {
			found++
			good := false
			for _, schema := range schemas {
				good = good || fits(schema, match[1], strings.Trim(match[2], `"`))
			}
			if !good {
				t.Errorf("%s: %s", path, fmt.Sprintf("%q fits nowhere", match[0]))
			}
		}
		return err
	})
	if err != nil || found < 10 {
		t.Errorf("%d settings, %v", found, err)
	}
}
