package rollout

import (
	"strings"
	"testing"
	"time"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/waiting"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

func TestWarningsSayWhatBecomesOfThePods(t *testing.T) {
	app, a := pin.Source{Kind: pin.ConfigMap, Name: "app"}, pin.Pin{Revision: "app-bbbbbbbbbb", Number: 1}
	tests := map[string]struct {
		decision      plan.Decision
		reason, parts string
	}{
		"missing and never pinned":    {plan.Decision{Verdict: plan.SourceMissing}, notice.SourceMissing, "configmap/app|does not exist|until it is created"},
		"missing and pinned":          {plan.Decision{Verdict: plan.SourceMissing, From: a}, notice.SourceMissing, "configmap/app|any more|keep using|app-bbbbbbbbbb@1"},
		"without a key, never pinned": {plan.Decision{Verdict: plan.KeyMissing, Keys: []string{"k"}}, notice.KeyMissing, `configmap/app|"k"|once it has it`},
		"without a key, but pinned":   {plan.Decision{Verdict: plan.KeyMissing, Keys: []string{"k"}, From: a}, notice.KeyMissing, `configmap/app|"k"|keep using|app-bbbbbbbbbb@1`},
		"absent, which is fine":       {plan.Decision{Verdict: plan.Absent}, "", ""},
		"held, which an event says":   {plan.Decision{Verdict: plan.Held, From: a}, "", ""},
		"waiting for the controller":  {plan.Decision{Verdict: plan.Waiting, From: a}, "", ""},
		"waiting for a deploy": {plan.Decision{Verdict: plan.Waiting, From: a, To: a, Wait: waiting.Wait{Reason: waiting.OnDeploy, By: "annotation x"}}, notice.WaitingToAdvance,
			"configmap/app changed|for a deploy (annotation x)|kubectl confrev advance deployment/web configmap/app -n default"},
		"a first pin that waits": {plan.Decision{Verdict: plan.Waiting, Wait: waiting.Turn(waiting.Budget, "annotation x", "configmap/app", time.Time{})}, notice.WaitingToAdvance,
			"configmap/app is not pinned yet, and waits for its turn (annotation x|kubectl confrev advance deployment/web configmap/app -n default"},
		"unknown, which an error says": {plan.Decision{Verdict: plan.Unknown}, "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.decision.Source = app
			got := (&Engine{Kind: workload.Deployment}).warnings(gen.Web("1"), plan.Plan{Decisions: []plan.Decision{test.decision}}, true)
			if test.reason == "" {
				if len(got) > 0 {
					t.Errorf("warned: %+v", got)
				}
				return
			}
			if len(got) != 1 || got[0].Reason != test.reason {
				t.Fatalf("warned: %+v, want one %s", got, test.reason)
			}
			for part := range strings.SplitSeq(test.parts, "|") {
				if !strings.Contains(got[0].Text, part) {
					t.Errorf("%q does not say %q", got[0].Text, part)
				}
			}
		})
	}
}
