package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice/sink"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// What became of a workload is read off the objects before and after, no matter what wrote them.
func TestTell(t *testing.T) {
	const (
		a, b, c = "configmap/app=app-bbbbbbbbbb@1", "configmap/app=app-cccccccccc@2", "configmap/app=app-bbbbbbbbbb@3"
		hashA   = "configmap/app=aaa@1"
		hashB   = "configmap/app=bbb@2"
	)
	stamped := func(hashes string) gen.DeploymentModifier {
		return func(d *appsv1.Deployment) {
			metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, keys.Hashes, hashes)
		}
	}
	noted := func(hashes string) gen.DeploymentModifier { return gen.Annotated(keys.Hashes, hashes) }
	held := func(pins string) gen.DeploymentModifier { return gen.Annotated(keys.Held, pins) }
	type modifiers = []gen.DeploymentModifier
	tests := map[string]struct {
		before, after modifiers
		want          []string
	}{
		"nothing":                          {modifiers{gen.Pinned(a)}, modifiers{gen.Pinned(a)}, nil},
		"a first pin":                      {nil, modifiers{gen.Pinned(a)}, []string{"Pinned configmap/app to its revision app-bbbbbbbbbb@1"}},
		"forward":                          {modifiers{gen.Pinned(a)}, modifiers{gen.Pinned(b)}, []string{"Rolled configmap/app forward from revision app-bbbbbbbbbb@1 to app-cccccccccc@2"}},
		"to earlier content, which is new": {modifiers{gen.Pinned(b)}, modifiers{gen.Pinned(c)}, []string{"forward from revision app-cccccccccc@2 to app-bbbbbbbbbb@3"}},
		"back":                             {modifiers{gen.Pinned(b)}, modifiers{gen.Pinned(a)}, []string{"Rolled configmap/app back from revision app-cccccccccc@2 to app-bbbbbbbbbb@1"}},
		"back, and held": {modifiers{gen.Pinned(b)}, modifiers{gen.Pinned(a), held(b + ";on=app-bbbbbbbbbb@1")},
			[]string{"back from", "Rolled back: staying on revision app-bbbbbbbbbb@1 of configmap/app, not on app-cccccccccc@2, until configmap/app changes " +
				"or a deploy changes code that was undone; to continue now: kubectl confrev resume deployment/web configmap/app -n default"}},
		"a hold that has ended":    {modifiers{gen.Pinned(a)}, modifiers{gen.Pinned(a), held(b + ";on=app-bbbbbbbbbb@1" + ";ended")}, nil},
		"a note about another pin": {modifiers{gen.Pinned(c)}, modifiers{gen.Pinned(c), held(b + ";on=app-bbbbbbbbbb@1")}, nil},
		"held still":               {modifiers{gen.Pinned(a), held(b + ";on=app-bbbbbbbbbb@1")}, modifiers{gen.Pinned(a), held(b + ";on=app-bbbbbbbbbb@1")}, nil},
		"no pins any more":         {modifiers{gen.Pinned(a)}, nil, []string{"has no pins any more: pods"}},
		"another mode":             {modifiers{gen.Pinned(a)}, modifiers{gen.Annotated(keys.Mode, "attach")}, []string{"since the mode is attach"}},
		"a hash is noted":          {nil, modifiers{noted(hashA)}, nil},
		"a change restarts":        {modifiers{noted(hashA)}, modifiers{stamped(hashB)}, []string{"Restarted because configmap/app changed"}},
		"an earlier hash is back":  {modifiers{stamped(hashB)}, modifiers{stamped(hashA)}, nil},
		"a restart that is undone": {modifiers{stamped(hashB)}, modifiers{stamped(hashA), gen.Annotated(keys.HeldHashes, "configmap/app=bbb@2;on=aaa@1")}, []string{"not restarted for configmap/app until configmap/app changes or a deploy changes code"}},
		"malformed pins":           {modifiers{gen.Pinned("x")}, modifiers{gen.Pinned("y")}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			said := told(func(t reporter) {
				h := t.handler()
				h.Update(context.TODO(), event.UpdateEvent{ObjectOld: gen.Deployment("web", test.before...), ObjectNew: gen.Deployment("web", test.after...)}, nil)
			})
			if len(said) != len(test.want) {
				t.Fatalf("said %q, want %q", said, test.want)
			}
			for i, want := range test.want {
				if !strings.Contains(said[i], want) {
					t.Errorf("said %q, want %q", said[i], want)
				}
			}
		})
	}
}

// What was there before this process was told by another, and confrev's own namespace is none of its business.
func TestTellWhatIsNewOnly(t *testing.T) {
	d := gen.Deployment("web", gen.Pinned("configmap/app=app-bbbbbbbbbb@1"))
	held := gen.Deployment("web", gen.Pinned("configmap/app=app-bbbbbbbbbb@1"), gen.Annotated(keys.Held, "configmap/app=app-cccccccccc@2;on=app-bbbbbbbbbb@1"))
	if said := told(func(t reporter) {
		t.handler().Create(context.TODO(), event.CreateEvent{Object: held}, nil)
	}); len(said) != 2 || !strings.Contains(said[1], "Created from a manifest with an older pin: staying on revision app-bbbbbbbbbb@1") {
		t.Errorf("of one that is created on an older pin: said %q", said)
	}
	for initial, want := range map[bool]int{false: 1, true: 0} {
		said := told(func(t reporter) {
			t.handler().Create(context.TODO(), event.CreateEvent{Object: d, IsInInitialList: initial}, nil)
		})
		if len(said) != want {
			t.Errorf("in the initial list %v: said %q", initial, said)
		}
	}
	if said := told(func(t reporter) {
		t.Options.Namespace = gen.Namespace
		t.handler().Create(context.TODO(), event.CreateEvent{Object: d}, nil)
	}); len(said) > 0 {
		t.Errorf("of confrev's own namespace: said %q", said)
	}
	if said := told(func(t reporter) {
		now := metav1.Now()
		t.Client = fake.NewClientBuilder().WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: gen.Namespace, DeletionTimestamp: &now, Finalizers: []string{"kubernetes"},
		}}).Build()
		t.handler().Create(context.TODO(), event.CreateEvent{Object: d}, nil)
	}); len(said) > 0 {
		t.Errorf("of a namespace that is being deleted: said %q", said)
	}
	// The cache may show the deletion of a namespace before that of a workload in it, and the creation after it.
	none := fake.NewClientBuilder().Build()
	create := func(t reporter) { t.handler().Create(context.TODO(), event.CreateEvent{Object: d}, nil) }
	if said := told(func(t reporter) { t.Client, t.Live = none, none; create(t) }); len(said) > 0 {
		t.Errorf("of a namespace that is gone: said %q", said)
	}
	if said := told(func(t reporter) { t.Client = none; create(t) }); len(said) == 0 {
		t.Error("of a namespace that the cache does not show yet: said nothing")
	}
}

// told returns the notes of the events that a reporter sends, those on the workload only.
func told(do func(reporter)) []string {
	recorded := events.NewFakeRecorder(10)
	c := fake.NewClientBuilder().WithObjects(inNamespace(nil)...).Build()
	do(reporter{&Workloads{Engine: &rollout.Engine{Kind: workload.Deployment, Client: c, Live: c}, Notices: sink.Events(recorded)}})
	close(recorded.Events)
	var notes []string
	for note := range recorded.Events {
		notes = append(notes, fmt.Sprint(note))
	}
	return slices.Clip(notes)
}
