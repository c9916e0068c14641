package view

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/installation"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/operator"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/overlay"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
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

// The pause of confrev's own ends with the missing source, so no one has to resume the Deployment.
func TestAForecastOfAPauseThatEnds(t *testing.T) {
	paused := func(d *appsv1.Deployment) { d.Spec.Paused = true }
	for name, test := range map[string]struct {
		web  *appsv1.Deployment
		want string
	}{
		"by confrev": {gen.Web("app:1", gen.Annotated(keys.Paused, "configmap/app"), paused), ""},
		"by a user":  {gen.Web("app:1", paused), "when resumed"},
	} {
		installed := installation.Installation{Options: installation.DefaultOptions(), Deployment: &appsv1.Deployment{}}
		edits := overlay.Edits{{GVK: revision.GVK(pin.ConfigMap), After: gen.App("a")}}
		list, err := PreviewEdits(t.Context(), seen{objects: []client.Object{test.web}}.client(t), installed, edits)
		if err != nil || len(list.Workloads) != 1 || !list.Workloads[0].RollsOut || list.Workloads[0].When != test.want {
			t.Errorf("paused %s: %+v, %v", name, list, err)
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
		installed := installation.Installation{Options: operator.Options{Options: rollout.Options{Injection: optin.Admission}}, Deployment: &appsv1.Deployment{}}
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

// What the user may not see is a note, as in the other verbs, so that no one takes a forecast for complete.
func TestAForecastSaysWhatTheUserMayNotSee(t *testing.T) {
	var all []string
	for _, kind := range workload.Standard() {
		all = append(all, kind.GVK.Kind)
	}
	for name, test := range map[string]struct {
		refused []string
		watched []string
		note    string
		err     bool
	}{
		"everything may be seen":       {},
		"one kind of workloads":        {refused: []string{"StatefulSet"}, note: "you may not list statefulsets: they are left out"},
		"holders":                      {refused: []string{"ReplicaSet"}, note: "you may not list replicasets: a workload that was rolled back may look as if it were advancing"},
		"no kind of workloads":         {refused: all, err: true},
		"the controller is not for it": {watched: []string{"other"}, note: "the controller in namespace confrev-system is limited to other: it does nothing in " + gen.Namespace},
	} {
		t.Run(name, func(t *testing.T) {
			installed := installation.Installation{Options: installation.DefaultOptions(), Namespace: installation.DefaultNamespace, Deployment: &appsv1.Deployment{}}
			installed.Options.WatchNamespaces = test.watched
			before := gen.App("a")
			edit, err := NewEdit(revision.GVK(pin.ConfigMap), before, gen.App("b"), installed)
			if err != nil {
				t.Fatal(err)
			}
			live := seen{[]client.Object{before, gen.Web("app:1", gen.Untracked)}, test.refused}.client(t)
			list, err := PreviewEdits(t.Context(), live, installed, overlay.Edits{edit})
			if test.err {
				if !apierrors.IsForbidden(err) {
					t.Errorf("got %+v, %v", list, err)
				}
				return
			}
			if err != nil || list.Partial() != (test.note != "") || test.note != "" && !slices.Equal(list.Notes, []string{test.note}) {
				t.Errorf("notes %q, %v", list.Notes, err)
			}
		})
	}
}

// Without the right to list Secrets, nothing is known of a changed one: it may well roll workloads out.
func TestAForecastOfASecretThatIsHidden(t *testing.T) {
	secret := func(value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: gen.Namespace, Name: "db"}, Data: map[string][]byte{"password": []byte(value)}}
	}
	web := gen.Deployment("web", gen.Tracking("all"), gen.Template(gen.EnvFrom("secret/db")))
	installed := installation.Installation{Options: installation.DefaultOptions(), Namespace: installation.DefaultNamespace, Deployment: &appsv1.Deployment{}}
	edit, err := NewEdit(revision.GVK(pin.Secret), secret("a"), secret("b"), installed)
	if err != nil {
		t.Fatal(err)
	}
	list, err := PreviewEdits(t.Context(), seen{[]client.Object{secret("a"), web}, []string{"Secret"}}.client(t), installed, overlay.Edits{edit})
	if err != nil || len(list.Workloads) != 1 || list.Workloads[0].Outcome() != NotSeen || len(list.Notes) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	want := SourceChange{Source: "secret/db", Verdict: string(plan.Unknown), Because: "you may not list Secrets, so this is not known"}
	if got := list.Workloads[0].Sources; !slices.Equal(got, []SourceChange{want}) {
		t.Errorf("got %+v", got)
	}
}
