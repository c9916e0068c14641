package reconcile

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

func newQueue(t *testing.T) refQueue {
	t.Helper()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[revision.Ref]())
	t.Cleanup(q.ShutDown)
	return q
}

// taken returns the names of what is in a queue.
func taken(q refQueue) string {
	var names []string
	for q.Len() > 0 {
		ref, _ := q.Get()
		names = append(names, ref.Name)
		q.Done(ref)
	}
	return strings.Join(names, " ")
}

// Mode attach: all that name an attached source own it, so that each of them matters, in whatever mode it is.
func TestWorkloadsThatNameAnAttachedSourceMatterToIt(t *testing.T) {
	attached := gen.ConfigMap("app-v1", nil)
	attached.Annotations = map[string]string{keys.Attach: "true"}
	reading := func(name string, more ...gen.DeploymentModifier) *appsv1.Deployment {
		return gen.Deployment("web", append([]gen.DeploymentModifier{gen.Untracked, gen.Template(gen.EnvFrom("configmap/" + name))}, more...)...)
	}
	attach, listed, labelled := gen.Annotated(keys.Mode, "attach"), gen.Tracking("configmap/app-v1"), func(d *appsv1.Deployment) {
		d.Labels = map[string]string{keys.Track: "all"}
	}
	for name, test := range map[string]struct {
		before, after *appsv1.Deployment
		want          string
	}{
		"one that did not opt in comes":     {nil, reading("app-v1"), "app-v1"},
		"it begins to name it":              {reading("other"), reading("app-v1"), "app-v1"},
		"it names it no longer":             {reading("app-v1"), reading("other"), "app-v1"},
		"it goes":                           {reading("app-v1"), nil, "app-v1"},
		"it changes otherwise":              {reading("app-v1"), reading("app-v1", gen.Replicas(2)), ""},
		"it names what may not be attached": {nil, reading("other"), ""},
		"it switches to the mode":           {reading("app-v1"), reading("app-v1", attach), "app-v1"},
		"it begins to track it":             {reading("app-v1", attach, gen.Tracking("none")), reading("app-v1", attach, listed), "app-v1"},
		"it opts in by a label":             {reading("app-v1", attach), reading("app-v1", attach, labelled), "app-v1"},
		"it names it as pins do, injected":  {nil, reading("app-v1-bbbbbbbbbb", gen.Pinned("configmap/app-v1=app-v1-bbbbbbbbbb@1")), "app-v1-bbbbbbbbbb app-v1"},
	} {
		t.Run(name, func(t *testing.T) {
			r, _, _ := newRevisions(t, attached.DeepCopy(), gen.ConfigMap("other", nil))
			q, h := newQueue(t), r.usedBy(templateUses(workload.Deployment))
			switch {
			case test.before == nil:
				h.Create(t.Context(), event.CreateEvent{Object: test.after}, q)
			case test.after == nil:
				h.Delete(t.Context(), event.DeleteEvent{Object: test.before}, q)
			default:
				h.Update(t.Context(), event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}, q)
			}
			if got := taken(q); got != test.want {
				t.Errorf("%q matter, want %q", got, test.want)
			}
		})
	}
}
