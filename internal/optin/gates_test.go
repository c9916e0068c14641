package optin_test

import (
	"slices"
	"testing"
	"time"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/waiting"
)

// Rules 32 to 35: where the settings are read, and which of them a deploy passes.
func TestGates(t *testing.T) {
	const freeze, manual = "2999-01-01", "manual"
	for name, test := range map[string]struct {
		annotations, labels, namespace map[string]string
		// alone and deploy are what the workload waits for without a deploy and in one.
		alone, deploy waiting.Reason
		by            string
		problems      []string
	}{
		"nothing":                      {},
		"an annotation":                {annotations: written(keys.FreezeUntil, freeze), alone: waiting.Frozen, deploy: waiting.Frozen, by: "annotation confrev.io/freeze-until"},
		"a label":                      {labels: written(keys.FreezeUntil, freeze), alone: waiting.Frozen, deploy: waiting.Frozen, by: "label confrev.io/freeze-until"},
		"the namespace":                {namespace: written(keys.FreezeUntil, freeze), alone: waiting.Frozen, deploy: waiting.Frozen, by: "annotation confrev.io/freeze-until of the namespace"},
		"auto":                         {annotations: written(keys.Advance, "auto"), namespace: written(keys.Advance, "auto")},
		"a freeze that is over":        {annotations: written(keys.FreezeUntil, "2020-01-01")},
		"deploys include it":           {annotations: with(keys.FreezeUntil, freeze, keys.Deploys, "include"), alone: waiting.Frozen, by: "annotation confrev.io/freeze-until"},
		"deploys wait":                 {annotations: with(keys.FreezeUntil, freeze, keys.Deploys, "wait"), alone: waiting.Frozen, deploy: waiting.Frozen, by: "annotation confrev.io/freeze-until"},
		"deploys include what is due":  {annotations: with(keys.Advance, manual, keys.Deploys, "include"), alone: waiting.Manual, deploy: waiting.Manual, by: "annotation confrev.io/advance"},
		"deploys, on another object":   {annotations: written(keys.Deploys, "include"), namespace: written(keys.FreezeUntil, freeze), alone: waiting.Frozen, deploy: waiting.Frozen, by: "annotation confrev.io/freeze-until of the namespace"},
		"deploys, with a typo":         {annotations: with(keys.FreezeUntil, freeze, keys.Deploys, "yes"), alone: waiting.Frozen, deploy: waiting.Frozen, by: "annotation confrev.io/freeze-until", problems: []string{"InvalidDeploys"}},
		"a window that cannot be read": {namespace: written(keys.Window, "9-17"), alone: waiting.Window, deploy: waiting.Window, by: "annotation confrev.io/window of the namespace", problems: []string{"InvalidWindow"}},
		"a time that cannot be read":   {labels: written(keys.FreezeUntil, "friday"), alone: waiting.Frozen, deploy: waiting.Frozen, by: "label confrev.io/freeze-until", problems: []string{"InvalidFreeze"}},
	} {
		t.Run(name, func(t *testing.T) {
			config := optin.Read(optin.Metadata{Annotations: test.annotations, Labels: test.labels, NamespaceAnnotations: test.namespace}, optin.Defaults{})
			var reasons []string
			for _, problem := range config.Problems {
				reasons = append(reasons, problem.Reason)
			}
			if !slices.Equal(reasons, test.problems) {
				t.Errorf("problems %q, want %q", reasons, test.problems)
			}
			for deploys, want := range map[bool]waiting.Reason{false: test.alone, true: test.deploy} {
				wait := waiting.ForAct(config.Gates, deploys)
				if wait.Reason == "" {
					wait = waiting.ForTime(config.Gates, deploys, time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
				}
				if wait.Reason != want || want != "" && wait.By != test.by {
					t.Errorf("deploys %t: it waits %s, want %s", deploys, wait, want)
				}
			}
		})
	}
}

// with makes annotations from keys and values.
func with(texts ...string) map[string]string {
	all := map[string]string{}
	for i := 0; i+1 < len(texts); i += 2 {
		all[texts[i]] = texts[i+1]
	}
	return all
}
