package fleet

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/waiting"
	"confrev.io/confrev/internal/workload"
)

// Rule 39: what a workload without a pin gets while a change is stopped: the newest revision that another one works with.
func TestWhatOthersWorkWith(t *testing.T) {
	app := surveyed(0).Source.Source()
	at := func(revision string, number int64) pin.Pin { return pin.Pin{Revision: revision, Number: number} }
	// without is a workload that does not have the change, with one that does, which had other content before.
	without := func(p pin.Pin, health ...workload.Health) rollout.Standing {
		return rollout.Standing{Decision: plan.Decision{From: p}, Health: health}
	}
	with := func(p pin.Pin, unwell bool) rollout.Standing {
		return rollout.Standing{Decision: plan.Decision{From: at("app-b", 9)}, Has: true, Health: []workload.Health{rolling},
			Advance: spread.Advance{From: pin.Set{app: p}, Unwell: unwell}}
	}
	for name, test := range map[string]struct {
		standings []rollout.Standing
		kind      workload.Kind
		goes      bool
		want      pin.Pin
	}{
		"the newest":                     {standings: []rollout.Standing{without(at("app-x", 1), healthy), without(at("app-y", 3), healthy), without(at("app-z", 2), healthy)}, want: at("app-y", 3)},
		"one that is being rolled out":   {standings: []rollout.Standing{without(at("app-x", 1), healthy), without(at("app-y", 3), rolling)}, want: at("app-x", 1)},
		"one that was just annotated":    {standings: []rollout.Standing{without(at("app-x", 1), workload.Health{Works: true, Disturbed: true, Unseen: true})}, want: at("app-x", 1)},
		"one that is partly rolled out":  {standings: []rollout.Standing{without(at("app-y", 3), healthy, rolling)}},
		"one without replicas":           {standings: []rollout.Standing{without(at("app-y", 3), idle)}},
		"one that no one rolls out":      {standings: []rollout.Standing{without(at("app-y", 3))}},
		"what one had before the change": {standings: []rollout.Standing{with(at("app-x", 1), false)}, want: at("app-x", 1)},
		"what one was not well with":     {standings: []rollout.Standing{with(at("app-x", 1), true)}},
		"the content itself":             {standings: []rollout.Standing{without(at("app-b", 2), healthy)}},
		"a CronJob's":                    {standings: []rollout.Standing{without(at("app-x", 1), healthy)}, kind: workload.CronJob},
		"no one uses it":                 {},
		"it is not stopped":              {standings: []rollout.Standing{without(at("app-x", 1), healthy)}, goes: true},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := New(nil, func() time.Time { return noon }), surveyed(0)
			asked := rollout.Spreading{Source: s.Source, Meta: &metav1.PartialObjectMetadata{}}
			s.at, s.Meta, s.Workloads, s.Stopped = noon, asked.Meta, map[string]Workload{}, !test.goes
			if test.kind.Path == "" {
				test.kind = workload.Deployment
			}
			for i, of := range test.standings {
				s.Workloads[string(rune('a'+i))] = Workload{Engine: &rollout.Engine{Kind: test.kind}, standing: of}
			}
			f.change(asked.Source).latest = s
			why, instead, err := f.Stopped(t.Context(), asked)
			if err != nil || instead != test.want || (why == waiting.ForStop("configmap/app")) == test.goes {
				t.Errorf("%+v instead of %+v (%v)", instead, why, err)
			}
		})
	}
}
