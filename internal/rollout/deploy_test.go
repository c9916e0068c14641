package rollout

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// Rule 21, as the webhook applies it: the workload ran image 1 on a, then image 2 on b.
func TestARollbackAndADeployAreDifferentThings(t *testing.T) {
	a, b, c := gen.PinOfApp("a", "1"), gen.PinOfApp("b", "2"), gen.PinOfApp("c", "3")
	onDeploy, manual := gen.Annotated(keys.Advance, "on-deploy"), gen.Annotated(keys.Advance, "manual")
	held := gen.Annotated(keys.Held, gen.HeldOn(b, a))
	variable := func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Env = append(d.Spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: "LOG", Value: "debug"})
	}
	prefixed := func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].EnvFrom[0].Prefix = "X_" }
	restarted := func(d *appsv1.Deployment) { d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] = "now" }
	made := func(at int64, rs *appsv1.ReplicaSet) client.Object {
		rs.CreationTimestamp = metav1.Unix(at, 0)
		return rs
	}
	// The Deployment controller copies the annotations of the Deployment.
	annotated := func(rs *appsv1.ReplicaSet, pairs ...string) client.Object {
		maps.Copy(rs.Annotations, gen.Data(pairs...))
		return rs
	}
	undone := []client.Object{gen.Ran("web-2", 2, "2", b), gen.Ran("web-1", 3, "1", a)}
	tests := map[string]struct {
		source   string
		holders  []client.Object
		obj, old *appsv1.Deployment
		pins     string
		holds    bool // whether it is held from b on a afterwards
		warned   bool
		advance  string
	}{
		"an undo leaves waiting what never ran": {
			source: "c", holders: []client.Object{gen.Ran("web-1", 1, "1", a), gen.Ran("web-2", 2, "2", b)},
			obj: gen.Web("1", gen.Pinned(a), onDeploy), old: gen.Web("2", gen.Pinned(b), onDeploy), pins: a, advance: "on-deploy",
		},
		"an undo keeps the settings that it would bring back": {
			source: "c", holders: []client.Object{annotated(gen.Ran("web-1", 1, "1", a), keys.Track, "all"), gen.Ran("web-2", 2, "2", b)},
			obj: gen.Web("1", gen.Pinned(a)), old: gen.Web("2", gen.Pinned(b), manual), pins: a, advance: "manual",
		},
		"an undo keeps a setting that had another value": {
			source: "c", holders: []client.Object{annotated(gen.Ran("web-1", 1, "1", a), keys.Advance, "on-deploy"), gen.Ran("web-2", 2, "2", b)},
			obj: gen.Web("1", gen.Pinned(a), onDeploy), old: gen.Web("2", gen.Pinned(b), manual), pins: a, advance: "manual",
		},
		"an undo to the second of two with the same code": {
			source: "c", holders: []client.Object{gen.Ran("web-1", 1, "1", a), annotated(gen.Ran("web-3", 3, "1", a), keys.Advance, "on-deploy"), gen.Ran("web-4", 4, "2", b)},
			obj: gen.Web("1", gen.Pinned(a), onDeploy), old: gen.Web("2", gen.Pinned(b), manual), pins: a, advance: "manual",
		},
		"earlier code with a setting that did not come from there": {
			source: "c", holders: []client.Object{annotated(gen.Ran("web-1", 1, "1", a), keys.Track, "all"), gen.Ran("web-2", 2, "2", b)},
			obj: gen.Web("1", gen.Pinned(a), manual), old: gen.Web("2", gen.Pinned(b)), pins: a, advance: "manual",
		},
		"earlier code with another value than there": {
			source: "c", holders: []client.Object{annotated(gen.Ran("web-1", 1, "1", a), keys.Advance, "auto"), gen.Ran("web-2", 2, "2", b)},
			obj: gen.Web("1", gen.Pinned(a), manual), old: gen.Web("2", gen.Pinned(b), onDeploy), pins: a, advance: "manual",
		},
		"earlier code without a setting that is there": {
			source: "c", holders: []client.Object{annotated(gen.Ran("web-1", 1, "1", a), keys.Advance, "manual"), gen.Ran("web-2", 2, "2", b)},
			obj: gen.Web("1", gen.Pinned(a)), old: gen.Web("2", gen.Pinned(b), onDeploy), pins: a,
		},
		"an undo that would opt the workload out": {
			source: "c", holders: []client.Object{annotated(gen.Ran("web-1", 1, "1", a), keys.Track, "none", keys.Mode, "restart"), gen.Ran("web-2", 2, "2", b)},
			obj: gen.Web("1", gen.Pinned(a), gen.Tracking("none"), gen.Annotated(keys.Mode, "restart")), old: gen.Web("2", gen.Pinned(b)), pins: a,
		},
		"an undo of code alone": {
			source: "c", holders: []client.Object{gen.Ran("web-1", 1, "1", b), gen.Ran("web-2", 2, "2", b)},
			obj: gen.Web("1", gen.Pinned(b)), old: gen.Web("2", gen.Pinned(b)), pins: b,
		},
		"other code takes it along": {
			source: "c", holders: []client.Object{gen.Ran("web-1", 1, "1", a), gen.Ran("web-2", 2, "2", b)},
			obj: gen.Web("3", gen.Pinned(b), onDeploy), old: gen.Web("2", gen.Pinned(b), onDeploy), pins: c, advance: "on-deploy",
		},
		"the same release again": {source: "b", holders: undone, obj: gen.Web("2", gen.Pinned(a), held), old: gen.Web("1", gen.Pinned(a), held), pins: b},
		"the same release again, by replace": {
			source: "b", holders: undone, obj: gen.Web("2"), old: gen.Web("1", gen.Pinned(a), held), pins: b,
		},
		"the same release, before the ReplicaSet shows the undo": {
			source: "b", holders: []client.Object{gen.Ran("web-1", 1, "1", a), gen.Ran("web-2", 2, "2", b)},
			obj: gen.Web("2", gen.Pinned(a), held), old: gen.Web("1", gen.Pinned(a), held), pins: b,
		},
		"fixed code": {source: "b", holders: undone, obj: gen.Web("3", gen.Pinned(a), held), old: gen.Web("1", gen.Pinned(a), held), pins: b},
		"fixed code, where a person says when to advance": {
			source: "b", holders: undone, obj: gen.Web("3", gen.Pinned(a), held, manual), old: gen.Web("1", gen.Pinned(a), held, manual), pins: a, advance: "manual",
		},
		"a restart": {source: "b", holders: undone, obj: gen.Web("1", gen.Pinned(a), held, restarted), old: gen.Web("1", gen.Pinned(a), held), pins: a, holds: true},
		"another variable": {
			source: "b", holders: undone, obj: gen.Web("1", gen.Pinned(a), held, variable), old: gen.Web("1", gen.Pinned(a), held), pins: a, holds: true, warned: true,
		},
		"a field that both had, before the ReplicaSet shows the undo": {
			source: "b", holders: []client.Object{gen.Ran("web-1", 1, "1", a), gen.Ran("web-2", 2, "2", b)},
			obj: gen.Web("1", gen.Pinned(a), held, prefixed), old: gen.Web("1", gen.Pinned(a), held), pins: a, holds: true, warned: true,
		},
		"new code after an undo of the configuration": {
			source: "b", holders: []client.Object{gen.Ran("web-2", 2, "1", b), gen.Ran("web-1", 3, "1", a)},
			obj: gen.Web("2", gen.Pinned(a), held), old: gen.Web("1", gen.Pinned(a), held), pins: a, holds: true, warned: true,
		},
		"newer code after that, when history is pruned": {
			source: "b", holders: []client.Object{made(2, gen.Ran("web-2", 2, "1", b)), made(3, gen.Ran("web-3", 3, "2", a))},
			obj: gen.Web("3", gen.Pinned(a), held), old: gen.Web("2", gen.Pinned(a), held), pins: a, holds: true, warned: true,
		},
		"fixed code after a restart": {
			source: "b", obj: gen.Web("3", gen.Pinned(a), held), old: gen.Web("1", gen.Pinned(a), held), pins: b,
			holders: []client.Object{made(1, gen.Ran("web-1", 1, "1", a)), made(2, gen.Ran("web-2", 2, "2", b)), made(3, gen.Ran("web-3", 3, "1", a))},
		},
		"new code, when history is pruned": {
			source: "b", holders: []client.Object{gen.Ran("web-1", 3, "1", a)},
			obj: gen.Web("2", gen.Pinned(a), held), old: gen.Web("1", gen.Pinned(a), held), pins: a, holds: true, warned: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			objects := append([]client.Object{gen.App(test.source), gen.RevisionOfApp("a", "1"), gen.RevisionOfApp("b", "2")}, test.holders...)
			w := newAdmissionWorld(t, workload.Deployment, objects...)
			got := w.admitted(t, test.obj, test.old, true).(*appsv1.Deployment)
			put := test.obj.DeepCopy()
			// kubectl replace sends none.
			put.UID = ""
			if replaced := w.admitted(t, put, test.old, true).(*appsv1.Deployment); !cmp.Equal(replaced.Annotations, got.Annotations) || !cmp.Equal(replaced.Spec, got.Spec) {
				t.Errorf("by a PUT without a UID, it becomes %v, %v", replaced.Annotations, replaced.Spec.Template.Annotations)
			}
			if pins := got.Spec.Template.Annotations[keys.Pins]; pins != test.pins {
				t.Errorf("pins %q, want %q", pins, test.pins)
			}
			notes, err := pin.ParseNotes(got.Annotations[keys.Held])
			if held := len(notes.Holding(gen.Pins(test.pins))) > 0; err != nil || held != test.holds {
				t.Errorf("held: %v, by %q", held, got.Annotations[keys.Held])
			}
			if got.Annotations[keys.Advance] != test.advance || got.Annotations[keys.Track] != "all" || got.Annotations[keys.Mode] != "" {
				t.Errorf("settings are %q, want %s %q", got.Annotations, keys.Advance, test.advance)
			}
			_, said, err := w.ask(t.Context(), test.obj, w.serve(t, test.old), true)
			warned := strings.Contains(noticeText(said), "kubectl confrev resume deployment/web configmap/app")
			if err != nil || warned != test.warned {
				t.Errorf("%v, warned: %q", err, noticeText(said))
			}
		})
	}
}

// Rule 21.3: the controller ends a hold that a deploy ended while the webhook did not answer.
func TestControllerEndsHoldThatWebhookMissed(t *testing.T) {
	a, b := gen.PinOfApp("a", "1"), gen.PinOfApp("b", "2")
	tests := map[string]struct {
		image   string
		holders []client.Object
		pins    string
	}{
		"fixed code":                                  {"3", []client.Object{gen.Ran("web-2", 2, "2", b), gen.Ran("web-1", 3, "1", a), gen.Ran("web-3", 4, "3", a)}, b},
		"the same again":                              {"2", []client.Object{gen.Ran("web-2", 2, "2", b), gen.Ran("web-1", 3, "1", a)}, b},
		"the undo itself":                             {"1", []client.Object{gen.Ran("web-2", 2, "2", b), gen.Ran("web-1", 3, "1", a)}, a},
		"before its ReplicaSet shows the undo":        {"1", []client.Object{gen.Ran("web-1", 1, "1", a), gen.Ran("web-2", 2, "2", b)}, a},
		"new code after an undo of the configuration": {"3", []client.Object{gen.Ran("web-2", 2, "1", b), gen.Ran("web-1", 3, "1", a), gen.Ran("web-3", 4, "3", a)}, a},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := gen.Web(test.image, gen.Pinned(a), gen.Annotated(keys.Held, gen.HeldOn(b, a)))
			w := newAdmissionWorld(t, workload.Deployment, append([]client.Object{gen.App("b"), gen.RevisionOfApp("a", "1"), gen.RevisionOfApp("b", "2")}, test.holders...)...)
			seen, err := w.observe(t.Context(), d, view{reader: w.client})
			if err != nil {
				t.Fatal(err)
			}
			want, err := w.endHolds(t.Context(), d, nil, seen, seen.decide())
			if err != nil || want.pins.Pins.String() != test.pins {
				t.Errorf("%v; pins %s, want %s", err, want.pins.Pins, test.pins)
			}
		})
	}
}

// Rule 21.1: which pins of a manifest count when it creates a workload. The source has content b.
func TestPinsOfANewWorkload(t *testing.T) {
	a, b := gen.PinOfApp("a", "1"), gen.PinOfApp("b", "2")
	first := gen.PinOfApp("b", "1")
	note := gen.Annotated(keys.Held, gen.HeldOn(b, a))
	manual := gen.Annotated(keys.Advance, "manual")
	ofOther := gen.RevisionOfApp("a", "1")
	ofOther.Annotations[keys.SourceName] = "ap"
	mutable := gen.RevisionOfApp("a", "1")
	mutable.Immutable = nil
	const refuses, resume = "is not a revision of it", "stays on revision"
	tests := map[string]struct {
		source  string // "b" when it is not given, "-" for none
		there   []client.Object
		obj     *appsv1.Deployment
		pins    string
		held    bool
		renewed bool // whether revision a is told to be about to be pinned
		says    string
	}{
		"of the present content, numbered elsewhere":    {there: []client.Object{gen.RevisionOfApp("b", "2")}, obj: gen.Web("1", gen.Pinned(gen.PinOfApp("b", "7"))), pins: b},
		"of content that was never a revision here":     {obj: gen.Web("1", gen.Pinned(gen.PinOfApp("b", "7"))), pins: first},
		"of a revision of the past":                     {there: []client.Object{gen.RevisionOfApp("a", "1")}, obj: gen.Web("1", gen.Pinned(a)), pins: a, held: true, renewed: true, says: resume},
		"of a revision of the past, held there":         {there: []client.Object{gen.RevisionOfApp("a", "1")}, obj: gen.Web("1", gen.Pinned(a), note), pins: a, held: true, renewed: true, says: resume},
		"of a revision of the past, for a person to go": {there: []client.Object{gen.RevisionOfApp("a", "1")}, obj: gen.Web("1", gen.Pinned(a), manual), pins: a, renewed: true},
		"of nothing that is here":                       {obj: gen.Web("1", gen.Pinned(a)), pins: first, says: refuses},
		"of nothing that is here, held there":           {obj: gen.Web("1", gen.Pinned(a), note), pins: b, says: refuses},
		"of nothing that is here, for a person to go":   {obj: gen.Web("1", gen.Pinned(a), manual), pins: first, says: refuses},
		"of another source's revision":                  {there: []client.Object{ofOther}, obj: gen.Web("1", gen.Pinned(a)), pins: first, says: refuses},
		"of what can still change":                      {there: []client.Object{mutable}, obj: gen.Web("1", gen.Pinned(a)), pins: first, says: refuses},
		"of a source that is missing":                   {source: "-", there: []client.Object{gen.RevisionOfApp("a", "1")}, obj: gen.Web("1", gen.Pinned(a)), pins: a, renewed: true},
		"of a source that is missing, and nothing here": {source: "-", obj: gen.Web("1", gen.Pinned(a)), says: refuses},
		"none, though it was held there":                {obj: gen.Web("1", note), pins: b},
		"none, though it was held, and that is here":    {there: []client.Object{gen.RevisionOfApp("a", "1")}, obj: gen.Web("1", note), pins: a, held: true, renewed: true, says: resume},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.source == "" {
				test.there = append(test.there, gen.App("b"))
			}
			test.obj.UID, test.obj.Generation = "", 0
			w := newAdmissionWorld(t, workload.Deployment, test.there...)
			if _, _, err := w.ask(t.Context(), test.obj, nil, true); err != nil || w.writes > 0 {
				t.Errorf("a dry run wrote %d times: %v", w.writes, err)
			}
			_, said, err := w.ask(t.Context(), test.obj, nil, false)
			if text := noticeText(said); err != nil || test.says != "" && !strings.Contains(text, test.says) ||
				test.says == "" && (strings.Contains(text, refuses) || strings.Contains(text, resume)) {
				t.Errorf("%v, it says %q", err, text)
			}
			got := w.admitted(t, test.obj, nil, false).(*appsv1.Deployment)
			pins := got.Spec.Template.Annotations[keys.Pins]
			notes, err := pin.ParseNotes(got.Annotations[keys.Held])
			if held := len(notes.Holding(gen.Pins(test.pins))) > 0; pins != test.pins || err != nil || held != test.held {
				t.Errorf("pins %q, want %q; held: %v, by %q", pins, test.pins, held, got.Annotations[keys.Held])
			}
			old := &corev1.ConfigMap{}
			err = w.client.Get(t.Context(), client.ObjectKey{Namespace: gen.Namespace, Name: gen.NameOfRevision("a")}, old)
			if renewed := err == nil && old.Annotations[keys.Renewed] != ""; renewed != test.renewed {
				t.Errorf("renewed: %v (%v)", renewed, err)
			}
		})
	}
}

// Rules 20 and 21.1: a request cannot choose what only looks like a revision. The workload stays on its pin, and who sent it is told.
func TestARequestChoosesNothingThatIsNotProven(t *testing.T) {
	b := gen.PinOfApp("b", "2")
	mutable, label, going, ofOther := gen.RevisionOfApp("a", "1"), gen.RevisionOfApp("a", "1"), gen.RevisionOfApp("a", "1"), gen.RevisionOfApp("a", "1")
	mutable.Immutable = nil
	label.Labels[keys.Content] = "v1-forged"
	going.Finalizers, going.DeletionTimestamp = []string{"example.com/keep"}, &metav1.Time{Time: time.Now()}
	ofOther.Annotations[keys.SourceName] = "ap"
	tests := map[string]struct {
		there  client.Object
		chosen bool
	}{
		"a revision":                  {gen.RevisionOfApp("a", "1"), true},
		"what can still change":       {mutable, false},
		"what has no label of a hash": {label, false},
		"what is being deleted":       {going, false},
		"another source's revision":   {ofOther, false},
		"nothing":                     {nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{gen.App("b"), gen.RevisionOfApp("b", "2")}
			if test.there != nil {
				objects = append(objects, test.there)
			}
			w := newAdmissionWorld(t, workload.Deployment, objects...)
			old, obj := gen.Web("1", gen.Pinned(b)), gen.Web("1", gen.Pinned(gen.PinOfApp("a", "1")))
			want := b
			if test.chosen {
				want = gen.PinOfApp("a", "1")
			}
			got := w.admitted(t, obj, old, false).(*appsv1.Deployment)
			if pins := got.Spec.Template.Annotations[keys.Pins]; pins != want {
				t.Errorf("pins %q, want %q", pins, want)
			}
			_, said, err := w.ask(t.Context(), obj, w.serve(t, old), true)
			if told := strings.Contains(noticeText(said), "not a revision of it"); err != nil || told == test.chosen {
				t.Errorf("it says %q, %v", noticeText(said), err)
			}
		})
	}
}
