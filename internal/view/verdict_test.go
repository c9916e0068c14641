package view

import (
	"testing"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
)

func TestExplainVerdict(t *testing.T) {
	for name, test := range map[string]struct {
		decision plan.Decision
		want     string
	}{
		"in sync":                   {plan.Decision{Verdict: plan.InSync, From: two, To: two}, "nothing that the workload uses changes"},
		"rolled out with a deploy":  {plan.Decision{Verdict: plan.InSync, From: one, To: two}, "rolled out to revision 2 with the workload"},
		"pinned for the first time": {plan.Decision{Verdict: plan.Pinned, To: one}, "pinned for the first time, to revision 1"},
		"advanced":                  {plan.Decision{Verdict: plan.Advanced, From: one, To: two}, "revision 1 -> 2"},
		"held":                      {plan.Decision{Verdict: plan.Held, From: one, To: one}, "held at revision 1: it was rolled back from this content"},
		"waiting":                   {plan.Decision{Verdict: plan.Waiting, From: one, To: one}, "waits at revision 1, as confrev.io/advance says"},
		"a key missing":             {plan.Decision{Verdict: plan.KeyMissing, Keys: []string{"a"}}, `lacks ["a"], which a container requires; the workload continues once it has it`},
		"a pinned source missing": {plan.Decision{Source: app, Verdict: plan.SourceMissing, From: pin.Pin{Revision: "app-bbbbbbbbbb", Number: 1}},
			"does not exist any more; pods keep using its revision app-bbbbbbbbbb@1"},
		"an object that restarts missing": {plan.Decision{Source: app, Verdict: plan.SourceMissing, From: pin.Pin{Revision: "v1-bbbbbbb", Number: 1}}, "does not exist any more"},
		"the source missing":              {plan.Decision{Verdict: plan.SourceMissing}, "does not exist; new pods cannot start until it is created"},
		"optional and absent":             {plan.Decision{Verdict: plan.Absent}, "does not exist, and is optional"},
		"optional, and absent since":      {plan.Decision{Verdict: plan.Absent, From: one, To: two}, "does not exist, and is optional: pinned to revision 2, which is empty"},
		"not known":                       {plan.Decision{Verdict: plan.Unknown}, "could not be looked at"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ExplainVerdict(test.decision); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
