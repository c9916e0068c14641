package cli

import (
	"testing"

	"confrev.io/confrev/internal/controller"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// preview speaks of the time of a rollout as undo does.
func TestWhenAForecastRollsOut(t *testing.T) {
	paused := gen.Deployment("web")
	paused.Spec.Paused = true
	job := workload.CronJob.New()
	for name, test := range map[string]struct {
		look controller.Look
		want string
	}{
		"a Deployment":        {controller.Look{Kind: workload.Deployment, Workload: web("all").obj, Rollers: []controller.Roller{{Kind: workload.Deployment, Object: web("all").obj}}}, ""},
		"a paused Deployment": {controller.Look{Kind: workload.Deployment, Workload: paused, Rollers: []controller.Roller{{Kind: workload.Deployment, Object: paused}}}, "when resumed"},
		"a CronJob":           {controller.Look{Kind: workload.CronJob, Workload: job, Rollers: []controller.Roller{{Kind: workload.CronJob, Object: job}}}, "with the next Job"},
	} {
		if got := when(test.look); got != test.want {
			t.Errorf("%s rolls out %q, want %q", name, got, test.want)
		}
	}
}
