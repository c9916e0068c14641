package view

import (
	"testing"

	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// Rule 21.2: a manifest that is an undo is forecast with the pin that it brings back, not with the one that it replaces.
func TestAForecastOfAnUndo(t *testing.T) {
	app := gen.Source("configmap/app")
	pins := func(revision string, number string) string { return "configmap/app=app-" + revision + "@" + number }
	old, undone := pins("cccccccccc", "2"), pins("bbbbbbbbbb", "1")
	for verdict, want := range map[plan.Verdict]string{
		plan.Held:    "held at revision 1: it was rolled back from this content",
		plan.Waiting: "waits at revision 1 until the controller advances it",
	} {
		before, after := gen.Deployment("web", gen.Pinned(old)), gen.Deployment("web", gen.Pinned(undone))
		on := gen.Pins(undone)[app]
		all := Edits{{GVK: workload.Deployment.GVK, Before: before, After: after}}
		f := all.forecast(rollout.Assessment{Kind: workload.Deployment, Workload: after, Template: gen.Pins(undone),
			Pins: plan.Plan{Decisions: []plan.Decision{{Source: app, Verdict: verdict, From: on, To: on}}}})
		if !f.RollsOut || len(f.Sources) != 1 || f.Sources[0].Because != want || f.Sources[0].From != gen.Pins(old)[app].String() {
			t.Errorf("%s: %+v", verdict, f)
		}
	}
}

// preview words the time of a rollout as undo does.
func TestWhenAForecastRollsOut(t *testing.T) {
	paused := gen.Deployment("web")
	paused.Spec.Paused = true
	job := workload.CronJob.New()
	for name, test := range map[string]struct {
		look rollout.Assessment
		want string
	}{
		"a Deployment":        {rollout.Assessment{Kind: workload.Deployment, Workload: gen.Deployment("web"), Rollers: []rollout.Roller{{Kind: workload.Deployment, Object: gen.Deployment("web")}}}, ""},
		"a paused Deployment": {rollout.Assessment{Kind: workload.Deployment, Workload: paused, Rollers: []rollout.Roller{{Kind: workload.Deployment, Object: paused}}}, "when resumed"},
		"a CronJob":           {rollout.Assessment{Kind: workload.CronJob, Workload: job, Rollers: []rollout.Roller{{Kind: workload.CronJob, Object: job}}}, "with the next Job"},
	} {
		if got := when(test.look); got != test.want {
			t.Errorf("%s rolls out %q, want %q", name, got, test.want)
		}
	}
}
