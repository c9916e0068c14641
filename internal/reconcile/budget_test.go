package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/gate"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

func TestRolloutsWithinAnyHour(t *testing.T) {
	var r rollouts
	begin := gen.Created.Time
	for i := range 3 {
		if wait := r.wait(3, begin.Add(time.Duration(i)*time.Minute)); wait != 0 {
			t.Errorf("rollout %d waits %s", i, wait)
		}
		r.wrote(begin.Add(time.Duration(i) * time.Minute))
	}
	for after, want := range map[time.Duration]time.Duration{
		3 * time.Minute: 57 * time.Minute, time.Hour - time.Second: time.Second, time.Hour: 0, 2 * time.Hour: 0,
	} {
		if wait := r.wait(3, begin.Add(after)); wait != want {
			t.Errorf("after %s, it waits %s, want %s", after, wait, want)
		}
	}
	r.wrote(begin.Add(time.Hour))
	if wait := r.wait(3, begin.Add(time.Hour)); wait != time.Minute || len(r.at) != 3 {
		t.Errorf("waits %s, remembers %v", wait, r.at)
	}
}

// Rule 11: only what changes to sources roll out is counted, and waits.
func TestOnlyWhatSourcesRollOutWaits(t *testing.T) {
	advances := []pin.Source{gen.Source("configmap/app")}
	for name, test := range map[string]struct {
		change rollout.Change
		waits  bool
	}{
		"an advance":                  {rollout.Change{Text: "x", Advances: advances}, true},
		"an advance with a first pin": {rollout.Change{Text: "x", Advances: advances, Urgent: true}, false},
		"what no source rolls out":    {rollout.Change{Text: "x"}, false},
		"nothing":                     {rollout.Change{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Workloads{
				Engine: &rollout.Engine{Kind: workload.Deployment, Now: func() time.Time { return gen.Created.Time }}, Gate: &gate.Gate{}, RolloutsPerHour: 2,
			}
			known := &memory{}
			d := gen.Deployment("web")
			if wait, w := r.obstructed(t.Context(), d, test.change, known); wait != 0 {
				t.Errorf("the first waits %s: %s", wait, w.Text)
			}
			known.rollouts.wrote(gen.Created.Time)
			known.rollouts.wrote(gen.Created.Time)
			wait, w := r.obstructed(t.Context(), d, test.change, known)
			if (wait == time.Hour) != test.waits || !test.waits && wait != 0 {
				t.Errorf("waits %s", wait)
			}
			if test.waits && (w.Reason != revision.TooFrequent || !strings.HasPrefix(w.Text, "deployment/web was rolled out 2 times") ||
				!strings.HasSuffix(w.Text, "configmap/app waits")) {
				t.Errorf("says %+v", w)
			}
		})
	}
}

// Rule 11: ten busy sources, each within its own limit, roll a workload out no more often than it may be. A deploy continues.
func TestBusySourcesTogetherHaveABudget(t *testing.T) {
	obj := gen.Web("1")
	w := newWorld(obj, gen.App("0"))
	now := gen.Created.Time
	w.Now, w.RolloutsPerHour = func() time.Time { return now }, 3
	values := strings.Split("abcdef", "")
	rolled := 0
	reconcile := func() *appsv1.Deployment {
		t.Helper()
		if _, err := w.Reconcile(t.Context(), requests([]client.Object{obj})[0]); err != nil {
			t.Fatal(err)
		}
		got := &appsv1.Deployment{}
		if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(obj), got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	pins := reconcile().Spec.Template.Annotations[keys.Pins]
	for _, value := range values {
		now = now.Add(time.Minute)
		source, patch := gen.App(value), fmt.Sprintf(`{"data":{"k":%q}}`, value)
		if err := w.client.Patch(t.Context(), source, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
		if after := reconcile().Spec.Template.Annotations[keys.Pins]; after != pins {
			pins, rolled = after, rolled+1
		}
	}
	if rolled != 3 {
		t.Errorf("rolled out %d times, want 3", rolled)
	}
	before := reconcile()
	deploy := before.DeepCopy()
	deploy.Spec.Template.Spec.Containers[0].Image = "2"
	if got := w.admitted(t, deploy, before); !strings.Contains(got.Spec.Template.Annotations[keys.Pins], gen.NameOfRevision("f")) {
		t.Errorf("a deploy has pins %s", got.Spec.Template.Annotations[keys.Pins])
	}
	now = gen.Created.Add(time.Hour + time.Minute)
	if got := reconcile(); !strings.Contains(got.Spec.Template.Annotations[keys.Pins], gen.NameOfRevision("f")) {
		t.Errorf("an hour later, pins %s", got.Spec.Template.Annotations[keys.Pins])
	}
}
