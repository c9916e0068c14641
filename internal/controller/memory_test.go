package controller

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
)

func TestMemoryIsOfOneObjectAndNotOfItsName(t *testing.T) {
	all := newMemories()
	web := types.NamespacedName{Namespace: "default", Name: "web"}
	all.get(web, "1").generation = 5
	if got := all.get(web, "1").generation; got != 5 {
		t.Errorf("generation %d was remembered, want 5", got)
	}
	if got := all.get(web, "2"); got.generation != 0 || got.uid != "2" {
		t.Errorf("a new object of the same name has the memory of the old one: %+v", got)
	}
	all.get(web, "2").generation = 6
	all.forget(web)
	if got := all.get(web, "2").generation; got != 0 {
		t.Errorf("generation %d was not forgotten", got)
	}
}

func TestWarningsSayWhatBecomesOfThePods(t *testing.T) {
	app, a := pin.Source{Kind: pin.ConfigMap, Name: "app"}, pin.Pin{Revision: "app-bbbbbbbbbb", Number: 1}
	tests := map[string]struct {
		decision      plan.Decision
		reason, parts string
	}{
		"missing and never pinned":     {plan.Decision{Verdict: plan.SourceMissing}, notice.SourceMissing, "configmap/app|does not exist|until it is created"},
		"missing and pinned":           {plan.Decision{Verdict: plan.SourceMissing, From: a}, notice.SourceMissing, "configmap/app|any more|keep using|app-bbbbbbbbbb@1"},
		"without a key, never pinned":  {plan.Decision{Verdict: plan.KeyMissing, Keys: []string{"k"}}, notice.KeyMissing, `configmap/app|"k"|once it has it`},
		"without a key, but pinned":    {plan.Decision{Verdict: plan.KeyMissing, Keys: []string{"k"}, From: a}, notice.KeyMissing, `configmap/app|"k"|keep using|app-bbbbbbbbbb@1`},
		"absent, which is fine":        {plan.Decision{Verdict: plan.Absent}, "", ""},
		"held, which an event says":    {plan.Decision{Verdict: plan.Held, From: a}, "", ""},
		"unknown, which an error says": {plan.Decision{Verdict: plan.Unknown}, "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.decision.Source = app
			got := warnings(plan.Plan{Decisions: []plan.Decision{test.decision}}, true)
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

func TestOptions(t *testing.T) {
	good := Options{
		rolloutOptions: rolloutOptions{Settle: time.Second, Namespace: "confrev"}, Grace: time.Minute, RevisionsPerHour: 1, RolloutsPerHour: 1, Workers: 1,
	}
	tests := map[string]struct {
		change func(*Options)
		want   string // part of the problem; "" for none
	}{
		"good ones":               {func(*Options) {}, ""},
		"no settling":             {func(o *Options) { o.Settle = 0 }, ""},
		"a negative settle time":  {func(o *Options) { o.Settle = -1 }, "--settle"},
		"a grace time too short":  {func(o *Options) { o.Grace = revision.PinWindow - 1 }, "--grace"},
		"the least grace time":    {func(o *Options) { o.Grace = revision.PinWindow }, ""},
		"no workers":              {func(o *Options) { o.Workers = 0 }, "--workers"},
		"no revisions at all":     {func(o *Options) { o.RevisionsPerHour = 0 }, "--revisions-per-hour"},
		"no rollouts at all":      {func(o *Options) { o.RolloutsPerHour = 0 }, "--rollouts-per-hour"},
		"a leader, and no place":  {func(o *Options) { o.LeaderElect, o.Namespace = true, "" }, "--namespace"},
		"no namespace of its own": {func(o *Options) { o.Namespace = "" }, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			options := good
			test.change(&options)
			err := options.Validate()
			if (err != nil) != (test.want != "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("Validate: %v, want %q", err, test.want)
			}
		})
	}
	// Rule 18.
	for namespace, want := range map[string]bool{"kube-system": true, "confrev": true, "default": false, "kube-public": false} {
		if got := good.excluded(namespace); got != want {
			t.Errorf("excluded(%s) = %v", namespace, got)
		}
	}
}
