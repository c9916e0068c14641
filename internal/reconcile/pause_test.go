package reconcile

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/gate"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/notice/sink"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/gen"
)

// pausedWeb returns a Deployment that confrev paused at its creation.
func pausedWeb(deadline *int32) *appsv1.Deployment {
	return gen.Web("1", gen.Annotated(keys.Paused, "configmap/app"), func(d *appsv1.Deployment) {
		d.CreationTimestamp, d.Spec.Paused, d.Spec.ProgressDeadlineSeconds = gen.Created, true, deadline
	})
}

// Rule 7: a pause ends by itself, also when confrev has only just started and remembers nothing.
func TestAPauseIsBounded(t *testing.T) {
	tests := map[string]struct {
		deadline *int32
		source   bool
		after    time.Duration
		paused   bool
		again    time.Duration
		pinned   bool
		ended    string
	}{
		"it waits":                              {after: 9 * time.Minute, paused: true, again: time.Minute},
		"it has waited long enough":             {after: 10 * time.Minute, ended: "Resumed 10m0s after"},
		"it has waited much longer":             {after: 10 * time.Hour, ended: "Resumed 10m0s after"},
		"its user waits less, and not yet over": {deadline: new(int32(60)), after: 59 * time.Second, paused: true, again: time.Second},
		"its user waits less":                   {deadline: new(int32(60)), after: 60 * time.Second, ended: "Resumed 1m0s after"},
		"its user waits longer":                 {deadline: new(int32(3600)), after: 10 * time.Minute, ended: "Resumed 10m0s after"},
		"the source is there by then":           {source: true, after: 10 * time.Hour, pinned: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{pausedWeb(test.deadline)}
			if test.source {
				objects = append(objects, gen.App("a"))
			}
			w := newWorld(objects...)
			told := events.NewFakeRecorder(100)
			w.Notices, w.Now = sink.Events(told), func() time.Time { return gen.Created.Add(test.after) }
			result, err := w.Reconcile(t.Context(), requests(objects[:1])[0])
			if err != nil {
				t.Fatal(err)
			}
			got := &appsv1.Deployment{}
			if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(objects[0]), got); err != nil {
				t.Fatal(err)
			}
			if got.Spec.Paused != test.paused || (got.Annotations[keys.Paused] != "") != test.paused {
				t.Errorf("paused: %v, for %q", got.Spec.Paused, got.Annotations[keys.Paused])
			}
			if pins, _ := pin.Parse(got.Spec.Template.Annotations[keys.Pins]); (len(pins) > 0) != test.pinned {
				t.Errorf("pins %q", pins)
			}
			if result.RequeueAfter != test.again {
				t.Errorf("looks again after %s, want %s", result.RequeueAfter, test.again)
			}
			if said := drained(told); test.ended != "" && !slices.ContainsFunc(said, func(s string) bool {
				return strings.HasPrefix(s, "Warning "+notice.PauseEnded+" "+test.ended) && strings.Contains(s, "configmap/app")
			}) || test.ended == "" && slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, notice.PauseEnded) }) {
				t.Errorf("said %q", said)
			}
		})
	}
}

// Rule 7: the same where the source is there, and something else keeps the pin from being written. What passes within seconds does not end the
// pause, so that a confrev that has only just started still pins first.
func TestAPauseIsBoundedWhateverPreventsThePin(t *testing.T) {
	for name, prevent := range map[string]func(w *world) (end func()){
		"nothing resolves pins": func(w *world) func() {
			w.Gate = gate.NewShut(errors.New("a policy is missing"))
			return func() { w.Gate = &gate.Gate{} }
		},
		"confrev has just started": func(w *world) func() {
			w.Gate = gate.NewGate(nil, "confrev", time.Now)
			return func() { w.Gate = &gate.Gate{} }
		},
		"no revision can be made": func(w *world) func() {
			return w.refuse(errors.New("no space left"))
		},
		"the revision changes each time": func(w *world) func() {
			return w.refuse(revision.NewChanged("revision app-bbbbbbbbbb"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			web := pausedWeb(nil)
			w := newWorld(web, gen.App("a"))
			told := events.NewFakeRecorder(100)
			var now time.Time
			w.Notices, w.Now = sink.Events(told), func() time.Time { return now }
			end := prevent(w)
			looks := func(after time.Duration) (d *appsv1.Deployment, again time.Duration) {
				now = gen.Created.Add(after)
				result, err := w.Reconcile(t.Context(), requests([]client.Object{web})[0])
				d = &appsv1.Deployment{}
				if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(web), d); err != nil {
					t.Fatal(err)
				}
				if err != nil {
					// The queue decides, unless it was asked for something else.
					return d, 0
				}
				return d, result.RequeueAfter
			}
			for _, after := range []time.Duration{time.Minute, 10*time.Minute - time.Second, 10 * time.Minute, 10*time.Minute + overdue - time.Second} {
				if d, again := looks(after); !d.Spec.Paused || again > overdue && after >= 10*time.Minute-time.Second {
					t.Errorf("after %s: paused: %v, looks again after %s", after, d.Spec.Paused, again)
				}
			}
			if d, _ := looks(10*time.Minute + overdue); d.Spec.Paused || d.Annotations[keys.Paused] != "" {
				t.Errorf("paused: %v, for %q", d.Spec.Paused, d.Annotations[keys.Paused])
			}
			if said := drained(told); !slices.ContainsFunc(said, func(s string) bool {
				return strings.HasPrefix(s, "Warning "+notice.PauseEnded+" Resumed 10m0s after") && strings.Contains(s, "configmap/app cannot be pinned")
			}) {
				t.Errorf("said %q", said)
			}
			end()
			if d, _ := looks(11 * time.Minute); d.Spec.Template.Annotations[keys.Pins] == "" {
				t.Error("it is not pinned afterwards")
			}
		})
	}
}

// Rule 7: after an error, the queue waits longer than the pause may last.
func TestAnErrorDoesNotProlongAPause(t *testing.T) {
	web := pausedWeb(nil)
	w := newWorld(web, gen.App("a"))
	w.Now = func() time.Time { return gen.Created.Add(9 * time.Minute) }
	w.refuse(errors.New("no space left"))
	if _, err := w.Reconcile(t.Context(), requests([]client.Object{web})[0]); err == nil {
		t.Fatal("it succeeded")
	}
	if want := requests([]client.Object{web}); !slices.Equal(w.woken.before, want) {
		t.Errorf("asked to look at %v, want %v", w.woken.before, want)
	}
}

// refuse makes the creation of revisions fail, until end.
func (w *world) refuse(err error) (end func()) {
	refused := interceptor.NewClient(w.client, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if err != nil {
				return err
			}
			return c.Create(ctx, obj, opts...)
		},
	})
	w.Store = revision.NewStore(w.client, w.client, refused, time.Now, w.Kinds, 100)
	return func() { err = nil }
}

// drained returns what was said so far.
func drained(recorder *events.FakeRecorder) []string {
	var said []string
	for {
		select {
		case s := <-recorder.Events:
			said = append(said, s)
		default:
			return said
		}
	}
}
