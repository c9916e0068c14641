package optin_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/waiting"
)

// Rule 21.5: labels of the workload say the same as its annotations, and the strictest counts.
func TestTheStrictestOfLabelAndAnnotationCounts(t *testing.T) {
	advances := map[string]struct {
		annotation, label string
		want              waiting.Reason
		problems          int
	}{
		"neither":                   {},
		"the annotation":            {annotation: "on-deploy", want: waiting.OnDeploy},
		"the label":                 {label: "manual", want: waiting.Manual},
		"a stricter label":          {annotation: "on-deploy", label: "manual", want: waiting.Manual},
		"a stricter annotation":     {annotation: "manual", label: "auto", want: waiting.Manual},
		"a label with a slip":       {annotation: "auto", label: "manul", want: waiting.Manual, problems: 1},
		"an annotation with a slip": {annotation: "manul", label: "auto", want: waiting.Manual, problems: 1},
	}
	for name, test := range advances {
		t.Run("advance: "+name, func(t *testing.T) {
			config := optin.Read(optin.Metadata{Annotations: written(keys.Advance, test.annotation), Labels: written(keys.Advance, test.label)}, optin.Defaults{})
			if wait := waiting.ForAct(config.Gates, false); wait.Reason != test.want || len(config.Problems) != test.problems {
				t.Errorf("%s, %v", wait.Reason, config.Problems)
			}
		})
	}
	tracks := map[string]struct {
		annotation, label string
		enabled, restarts bool
		problems          int
	}{
		"neither":                  {restarts: true},
		"the label all":            {label: "all", enabled: true, restarts: true},
		"the label none":           {label: "none"},
		"the label none wins":      {annotation: "all", label: "none"},
		"the annotation none wins": {annotation: "none", label: "all"},
		"a list and the label all": {annotation: "configmap/app", label: "all", enabled: true, restarts: true},
		"a label that is neither":  {label: "some", restarts: true, problems: 1},
	}
	for name, test := range tracks {
		t.Run("track: "+name, func(t *testing.T) {
			annotations := written(keys.Track, test.annotation)
			annotations[keys.RestartOn] = "configmap/x"
			config := optin.Read(optin.Metadata{Annotations: annotations, Labels: written(keys.Track, test.label)}, optin.Defaults{})
			if config.Track.Enabled() != test.enabled || (len(config.RestartOn) > 0) != test.restarts || len(config.Problems) != test.problems {
				t.Errorf("enabled: %v, %v, %v", config.Track.Enabled(), config.RestartOn, config.Problems)
			}
		})
	}
}

func written(key, value string) map[string]string {
	if value == "" {
		return map[string]string{}
	}
	return map[string]string{key: value}
}

// Rule 19: of what was written for confrev, 64 bytes are repeated.
func TestProblemsRepeatLittle(t *testing.T) {
	text := strings.Repeat("-", 64) + "tail"
	_, problems := optin.Compat{}.Describe(pin.Source{Kind: pin.ConfigMap, Name: "app"}, &metav1.ObjectMeta{Annotations: written(keys.Policy, text)})
	for _, key := range []string{keys.Track, keys.Mode, keys.Injection, keys.Advance, keys.Settle, keys.Owners, keys.RestartOn} {
		found := optin.Read(optin.Metadata{Annotations: written(key, text)}, optin.Defaults{}).Problems
		if len(found) == 0 {
			t.Errorf("no problem with %s", key)
		}
		problems = append(problems, found...)
	}
	for _, problem := range problems {
		if strings.Contains(fmt.Sprint(problem), "tail") {
			t.Errorf("it repeats everything: %v", problem)
		}
	}
}
