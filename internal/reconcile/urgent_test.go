package reconcile

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice/sink"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/gen"
)

// refusing is a world in which no revision of configmap/db can be created, which web uses next to configmap/app. It counts the revisions that are.
type refusing struct {
	*world
	now     time.Time
	created int
	told    *events.FakeRecorder
}

func newRefusing(settle string) *refusing {
	obj := gen.Web("1", gen.Template(gen.Container("main", gen.EnvFrom("configmap/app"), gen.EnvFrom("configmap/db"))),
		gen.Pinned(gen.PinOfApp("0", "1")), gen.Annotated(keys.Settle, settle))
	w := &refusing{
		world: newWorld(obj, gen.RevisionOfApp("0", "1"), gen.App("0"), gen.ConfigMap("db", gen.Data("k", "v"))),
		now:   gen.Created.Time, told: events.NewFakeRecorder(1000),
	}
	w.Now, w.Notices = func() time.Time { return w.now }, sink.Events(w.told)
	c := interceptor.NewClient(w.client, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, options ...client.CreateOption) error {
			if _, is := obj.(*corev1.ConfigMap); is && strings.HasPrefix(obj.GetName(), "db-") {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, obj.GetName(), fmt.Errorf("exceeded quota"))
			}
			w.created++
			return c.Create(ctx, obj, options...)
		},
	})
	w.Store = revision.NewStore(c, c, c, w.Now, w.Kinds, 100)
	return w
}

// edit changes configmap/app.
func (w *refusing) edit(t *testing.T, value string) {
	t.Helper()
	if err := w.client.Patch(t.Context(), gen.App(value), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{"k":%q}}`, value))); err != nil {
		t.Fatal(err)
	}
}

// look reconciles, and returns how long to wait, and which revision of configmap/app the template has.
func (w *refusing) look(t *testing.T) (time.Duration, string) {
	t.Helper()
	obj := gen.Web("1")
	result, err := w.Reconcile(t.Context(), requests([]client.Object{obj})[0])
	if err != nil {
		t.Fatal(err)
	}
	got := &appsv1.Deployment{}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(obj), got); err != nil {
		t.Fatal(err)
	}
	pins, err := pin.Parse(got.Spec.Template.Annotations[keys.Pins])
	if err != nil || len(pins) != 1 {
		t.Fatalf("pins %s, %v", pins, err)
	}
	return result.RequeueAfter, pins[gen.Source("configmap/app")].Revision
}

// Rule 2: changes settle although a first pin is refused each time.
func TestChangesSettleWhileAFirstPinIsRefused(t *testing.T) {
	w := newRefusing("20s")
	is := func(after time.Duration, wait time.Duration, value string, created int) {
		t.Helper()
		w.now = gen.Created.Add(after)
		got, name := w.look(t)
		if got != wait || name != gen.NameOfRevision(value) || w.created != created {
			t.Errorf("after %s, it waits %s on %s, and %d revisions were created; want %s, %s, %d", after, got, name, w.created, wait, gen.NameOfRevision(value), created)
		}
	}
	is(0, retryRefused, "0", 0)
	// An hour later, the first refusal says nothing about how long other changes have waited.
	w.edit(t, "a")
	is(time.Hour, 20*time.Second, "0", 0)
	is(time.Hour+10*time.Second, 10*time.Second, "0", 0)
	w.edit(t, "b")
	is(time.Hour+11*time.Second, 20*time.Second, "0", 0)
	is(time.Hour+30*time.Second, time.Second, "0", 0)
	// What no workload needed never became a revision.
	is(time.Hour+31*time.Second, retryRefused, "b", 1)
	if said := strings.Join(drained(w.told), "\n"); !strings.Contains(said, "may not copy configmap/db") || !strings.Contains(said, "Created revision "+gen.NameOfRevision("b")) {
		t.Errorf("it says %s", said)
	}
}

// Rule 11: nor do changes roll a workload out more often than they may.
func TestRolloutsAreLimitedWhileAFirstPinIsRefused(t *testing.T) {
	w := newRefusing("0s")
	w.RolloutsPerHour = 2
	last, rolled := gen.NameOfRevision("0"), 0
	for value := range strings.SplitSeq("abcdef", "") {
		w.now = w.now.Add(time.Minute)
		w.edit(t, value)
		wait, name := w.look(t)
		if name != last {
			last, rolled = name, rolled+1
		}
		if wait != retryRefused {
			t.Errorf("with %s, it waits %s: what was refused may be permitted sooner than the rest may roll out", value, wait)
		}
	}
	if said := strings.Join(drained(w.told), "\n"); rolled != 2 || w.created != 2 || !strings.Contains(said, "was rolled out 2 times") {
		t.Errorf("it was rolled out %d times, with %d revisions; want 2; it says %s", rolled, w.created, said)
	}
	w.now = w.now.Add(time.Hour)
	if _, name := w.look(t); name != gen.NameOfRevision("f") {
		t.Errorf("an hour later, it has %s", name)
	}
}
