package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/notice/sink"
	"confrev.io/confrev/internal/pin"
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
