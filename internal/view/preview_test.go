package view

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/operator"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/overlay"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"

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
		all := overlay.Edits{{GVK: workload.Deployment.GVK, Before: before, After: after}}
		f := forecastOf(all, rollout.Assessment{Kind: workload.Deployment, Workload: after, Template: gen.Pins(undone),
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

// Preview shows how a change would spread, and how long that takes at least.
func TestAForecastOfSpreading(t *testing.T) {
	source := gen.ConfigMap("app", map[string]string{"v": "1"})
	source.Annotations = map[string]string{keys.Steps: "1", keys.Bake: "5m", keys.MaxRolling: "1"}
	objects := []client.Object{source, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gen.Namespace}}, madeOf(appA, "1", "1")}
	for _, name := range []string{"a", "b", "c"} {
		objects = append(objects, gen.Deployment(name, gen.Tracking("all"), gen.Template(gen.EnvFrom("configmap/app")), gen.Pinned("configmap/app="+appA+"@1")))
	}
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).Build()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(source), source); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ value, steps, want string }{
		"it changes":         {"2", "1", "15m0s"},
		"it does not change": {"1", "1", ""},
		"it does not spread": {"2", "", ""},
	} {
		after := source.DeepCopy()
		after.Data["v"] = test.value
		if after.Annotations[keys.Steps] = test.steps; test.steps == "" {
			after.Annotations = nil
		}
		installed := Installation{Options: operator.Options{Options: rollout.Options{Injection: optin.Admission}}, Deployment: &appsv1.Deployment{}}
		edit, err := NewEdit(revision.GVK(pin.ConfigMap), source, after, installed)
		if err != nil {
			t.Fatal(err)
		}
		list, err := PreviewEdits(t.Context(), c, installed, overlay.Edits{edit})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, change := range list.Changes {
			got += change.AtLeast
		}
		if got != test.want {
			t.Errorf("%s: %q %+v %+v", name, got, list.Changes, list.Workloads)
		}
	}
}
