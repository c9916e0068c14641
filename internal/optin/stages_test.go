package optin_test

import (
	"slices"
	"strings"
	"testing"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/spread"
)

// Rule 44: the pairs that the chart lists.
func TestParseStages(t *testing.T) {
	stages, err := optin.ParseStages([]string{"prod=staging", "prod=canary", "staging=test", "eu=staging"})
	if err != nil || !slices.Equal(stages.Followers("staging"), []string{"eu", "prod"}) || len(stages.Followers("prod")) > 0 {
		t.Errorf("%v, %v", stages, err)
	}
	for text, wrong := range map[string]string{
		"prod":                    `"prod" is not a pair of namespaces such as prod=staging`,
		"prod=":                   "is not a pair",
		"=staging":                "is not a pair",
		"prod=Staging":            "is not a pair",
		"prod=staging=test":       "is not a pair",
		"prod=prod":               "namespace prod would come after itself",
		"a=b,b=c,c=a":             "namespace a would come after itself",
		"x=a,a=b,b=a,other=other": "would come after itself",
	} {
		if _, err := optin.ParseStages(strings.Split(text, ",")); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v, want %q", text, err, wrong)
		}
	}
	// Two ways to the same namespace are no circle.
	if _, err := optin.ParseStages([]string{"d=b", "d=c", "b=a", "c=a"}); err != nil {
		t.Error(err)
	}
}

// Rule 44: what a namespace says counts only if the chart lists the pair.
func TestStagesOfANamespace(t *testing.T) {
	stages, err := optin.ParseStages([]string{"prod=staging"})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		namespace, after string
		source           map[string]string
		follows          string
		leads, invalid   bool
	}{
		"nothing is said":      {namespace: "prod"},
		"listed":               {namespace: "prod", after: "staging", follows: "staging"},
		"an exception":         {namespace: "prod", after: "staging", source: map[string]string{keys.After: "none"}},
		"not listed":           {namespace: "prod", after: "test", invalid: true},
		"the other way round":  {namespace: "staging", after: "prod", leads: true, invalid: true},
		"the one before":       {namespace: "staging", leads: true},
		"another namespace":    {namespace: "dev"},
		"a source of its own":  {namespace: "prod", source: map[string]string{keys.After: "staging"}, invalid: true},
		"no namespace is read": {},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{}
			if test.after != "" {
				annotations[keys.After] = test.after
			}
			shared, gates, problems := stages.Spreading(test.namespace, annotations)
			own, more, moreProblems := optin.Spreading(test.source, " of x")
			s, gates, problems := shared.With(own), append(gates, more...), append(problems, moreProblems...)
			if s.Follows() != test.follows || s.Leads != test.leads || s.Active() != (test.follows != "" || test.leads || test.source[keys.After] == "none") {
				t.Errorf("%+v", s)
			}
			if len(problems) != len(gates) || (len(gates) == 1 && gates[0].Invalid) != test.invalid {
				t.Errorf("gates %+v, problems %+v", gates, problems)
			}
		})
	}
	for version, wrong := range map[string]bool{"1.2.3-rc1+build": false, "": true, strings.Repeat(" ", 3): true, strings.Repeat("v", 128): false, strings.Repeat("v", 129): true} {
		written := map[string]string{keys.Version: version}
		if got := optin.Version(written); (got == "") != wrong || got != "" && got != version {
			t.Errorf("version %q is read as %q", version, got)
		}
		if _, gates, problems := optin.Spreading(written, ""); len(gates) > 0 || len(problems) > 0 != wrong {
			t.Errorf("version %q: gates %v, problems %v", version, gates, problems)
		}
	}
}

// Rule 36: the installation's settings count where nothing else is said.
func TestSafetyOfTheInstallation(t *testing.T) {
	defaults := optin.Defaults{Safety: spread.Careful("chart value safety")}
	for name, test := range map[string]struct {
		namespace, source map[string]string
		by                string
	}{
		"nothing is said":           {by: "chart value safety"},
		"a namespace says more":     {namespace: map[string]string{keys.Bake: "1s"}, by: "annotation confrev.io/bake of the namespace"},
		"a source says more":        {source: map[string]string{keys.Steps: "1"}, by: "annotation confrev.io/steps of x"},
		"a namespace wants none":    {namespace: map[string]string{keys.Safety: "none"}},
		"a source wants none":       {source: map[string]string{keys.Safety: "none"}},
		"none and something":        {source: map[string]string{keys.Safety: "none", keys.Bake: "1s"}, by: "annotation confrev.io/bake of x"},
		"what says nothing of this": {source: map[string]string{keys.Version: "1"}, by: "chart value safety"},
	} {
		t.Run(name, func(t *testing.T) {
			config := optin.Read(optin.Metadata{NamespaceAnnotations: test.namespace}, defaults)
			own, _, _ := optin.Spreading(test.source, " of x")
			if s := config.Spreading.With(own).Or(config.Safety); s.By != test.by {
				t.Errorf("%+v", s)
			}
		})
	}
	if _, err := optin.ParseSafety("reckless", ""); err == nil {
		t.Error("any preset is known")
	}
}
