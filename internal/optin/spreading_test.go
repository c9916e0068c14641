package optin_test

import (
	"strings"
	"testing"
	"time"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/spread"
)

// Rule 36: what a source or a namespace says, and what is wrong with it.
func TestSpreading(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		active      bool
		bake        time.Duration
		steps       int
		rolling     int
		wrong       string
	}{
		"nothing":          {},
		"careful":          {annotations: map[string]string{keys.Safety: "careful"}, active: true, bake: 5 * time.Minute, steps: 3, rolling: 1},
		"careful and more": {annotations: map[string]string{keys.Safety: "careful", keys.Bake: "10m", keys.MaxRolling: "2"}, active: true, bake: 10 * time.Minute, steps: 3, rolling: 2},
		"careful and less": {annotations: map[string]string{keys.Safety: "careful", keys.Bake: "1m"}, active: true, bake: 5 * time.Minute, steps: 3, rolling: 1},
		"each by itself":   {annotations: map[string]string{keys.Steps: "1,50%", keys.MaxRolling: "10%", keys.Bake: "1m"}, active: true, bake: time.Minute, steps: 2, rolling: 1},
		"another preset":   {annotations: map[string]string{keys.Safety: "reckless"}, wrong: `annotation confrev.io/safety of x: "reckless" is not known: want careful or none; until it is corrected, nothing advances`},
		"no steps":         {annotations: map[string]string{keys.Steps: ""}, wrong: "annotation confrev.io/steps of x"},
		"no budget":        {annotations: map[string]string{keys.MaxRolling: "0"}, wrong: "annotation confrev.io/max-rolling of x"},
		"no time":          {annotations: map[string]string{keys.Bake: "soon"}, wrong: "annotation confrev.io/bake of x"},
	} {
		t.Run(name, func(t *testing.T) {
			s, gates, problems := optin.Spreading(test.annotations, " of x")
			if s.Active() != test.active || s.Bake != test.bake || len(s.Steps) != test.steps || len(s.MaxRolling) != test.rolling {
				t.Errorf("%+v", s)
			}
			if test.wrong == "" {
				if len(gates) > 0 || len(problems) > 0 {
					t.Errorf("gates %v, problems %v", gates, problems)
				}
				return
			}
			if len(gates) != 1 || !gates[0].Invalid || len(problems) != 1 || problems[0].Reason != optin.InvalidSpreading || !strings.HasPrefix(problems[0].Text, test.wrong) {
				t.Errorf("gates %+v, problems %+v", gates, problems)
			}
			// What might have said how many at a time holds back first pins too.
			_, rolling := test.annotations[keys.MaxRolling]
			_, safety := test.annotations[keys.Safety]
			if gates[0].Budget != (rolling || safety) {
				t.Errorf("gate %+v", gates[0])
			}
		})
	}
	if _, gates, problems := optin.Spreading(map[string]string{keys.Passed: "all"}, ""); len(gates) > 0 || len(problems) != 1 || !strings.Contains(problems[0].Text, "it has no effect") {
		t.Errorf("gates %+v, problems %+v", gates, problems)
	}
}

// Rule 37: a workload's wave. The label takes precedence, and what cannot be read comes last.
func TestWave(t *testing.T) {
	for name, test := range map[string]struct {
		label, annotation string
		want              int
		wrong             bool
	}{
		"none":         {},
		"annotation":   {annotation: "-5", want: -5},
		"label":        {label: "10", want: 10},
		"both":         {label: "10", annotation: "20", want: 10},
		"a bad label":  {label: "first", annotation: "20", want: spread.LastWave, wrong: true},
		"a bad number": {annotation: "1.5", want: spread.LastWave, wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := optin.Metadata{Annotations: map[string]string{}, Labels: map[string]string{}}
			if test.annotation != "" {
				w.Annotations[keys.Wave] = test.annotation
			}
			if test.label != "" {
				w.Labels[keys.Wave] = test.label
			}
			config := optin.Read(w, optin.Defaults{})
			if config.Wave != test.want || len(config.Problems) > 0 != test.wrong {
				t.Errorf("wave %d, problems %v", config.Wave, config.Problems)
			}
		})
	}
	w := optin.Metadata{NamespaceAnnotations: map[string]string{keys.Steps: "1", keys.MaxRolling: "none"}}
	if config := optin.Read(w, optin.Defaults{}); !config.Spreading.Active() || len(config.Gates) != 1 || len(config.Problems) != 1 {
		t.Errorf("of the namespace: %+v", config)
	}
}
