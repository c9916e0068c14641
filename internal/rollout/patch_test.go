package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// planFor makes a plan that moves the pins of source configmap/app.
func planFor(from, to, held string) plan.Plan {
	app := gen.Source("configmap/app")
	p := plan.Plan{Pins: gen.Pins(to), Held: gen.Notes(held)}
	p.Decisions = []plan.Decision{{Source: app, From: gen.Pins(from)[app], To: gen.Pins(to)[app]}}
	return p
}

// seenIn returns what is observed of a workload that tracks configmap/app.
func seenIn(d *appsv1.Deployment, p plan.Plan) (*observed, intent) {
	app := gen.Source("configmap/app")
	seen := &observed{
		namespace: d.Namespace, template: &d.Spec.Template, optInHashes: pin.Set{},
		config: optin.Config{Mode: optin.Revision, Injection: optin.Admission},
		pins:   plan.Input{Uses: []podspec.Use{{Source: app, All: true}}},
	}
	seen.pins.Pins, _ = pin.Parse(d.Spec.Template.Annotations[keys.Pins])
	return seen, intent{pins: p}
}

const (
	pinA = "configmap/app=app-bbbbbbbbbb@1"
	pinB = "configmap/app=app-cccccccccc@2"
	// heldB is the note of a hold from b on a.
	heldB = "configmap/app=app-cccccccccc@2;on=app-bbbbbbbbbb@1"
)

// The patch is applied by a JSON patch library, as the API server applies it.
func TestThePatchBringsPinsAndNoteAndNothingElse(t *testing.T) {
	tests := map[string]struct {
		before, after *appsv1.Deployment
		plan          plan.Plan
	}{
		"the first pins, where the template has no annotations": {
			gen.Deployment("web", gen.Tracking("all")), gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinA)), planFor("", pinA, ""),
		},
		"other pins": {
			gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinA)), gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinB)),
			planFor(pinA, pinB, ""),
		},
		"other pins, and the note goes (rule 4)": {
			gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinA), gen.Annotated(keys.Held, heldB)),
			gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinB)), planFor(pinA, pinB, ""),
		},
		"a note, and no rollout (rule 4)": {
			gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinA)),
			gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinA), gen.Annotated(keys.Held, heldB)), planFor(pinA, pinA, heldB),
		},
		"a note on a workload without annotations": {
			gen.Deployment("web", gen.Pinned(pinA)), gen.Deployment("web", gen.Pinned(pinA), gen.Annotated(keys.Held, heldB)), planFor(pinA, pinA, heldB),
		},
		"a malformed note goes": {
			gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinA), gen.Annotated(keys.Held, "oops")),
			gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinA)), planFor(pinA, pinA, ""),
		},
		"malformed pins are written again": {
			gen.Deployment("web", gen.Tracking("all"), gen.Pinned("oops")), gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinA)), planFor("", pinA, ""),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(test.before.DeepCopy()).Build()
			r := &Engine{Kind: workload.Deployment, Client: c}
			seen, want := seenIn(test.before, test.plan)
			if err := r.send(t.Context(), test.before.DeepCopy(), r.patch(test.before, seen, want)); err != nil {
				t.Fatal(err)
			}
			got := &appsv1.Deployment{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(test.before), got); err != nil {
				t.Fatal(err)
			}
			got.TypeMeta, got.ResourceVersion = test.after.TypeMeta, ""
			if diff := cmp.Diff(test.after, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A note never takes other annotations away: neither one that the cache leaves out, nor one that was written since.
func TestANoteTakesNoOtherAnnotationAway(t *testing.T) {
	applied := gen.Annotated(corev1.LastAppliedConfigAnnotation, `{"kind":"Deployment"}`)
	tests := map[string]struct {
		live    *appsv1.Deployment
		changed bool
	}{
		"the manifest that was applied, without which apply prunes nothing": {gen.Deployment("web", gen.Pinned(pinA), applied), false},
		"what was written after the look":                                   {gen.Deployment("web", gen.Pinned(pinA), gen.Annotated("other", "x")), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(test.live.DeepCopy()).Build()
			r := &Engine{Kind: workload.Deployment, Client: c}
			cached := test.live.DeepCopy()
			delete(cached.Annotations, "other")
			workload.Deployment.Compact(cached)
			seen, want := seenIn(cached, planFor(pinA, pinA, heldB))
			if err := r.send(t.Context(), cached, r.patch(cached, seen, want)); err != nil && !test.changed {
				t.Fatal(err)
			}
			got := &appsv1.Deployment{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(test.live), got); err != nil {
				t.Fatal(err)
			}
			for key, value := range test.live.Annotations {
				if got.Annotations[key] != value {
					t.Errorf("annotation %s is %q, want %q", key, got.Annotations[key], value)
				}
			}
			if noted := got.Annotations[keys.Held] != ""; noted == test.changed {
				t.Errorf("noted: %v", noted)
			}
		})
	}
}

// Rule 3: what is as it should be is not written.
func TestNoPatchWhereThereIsNothingToDo(t *testing.T) {
	r := &Engine{Kind: workload.Deployment}
	for name, p := range map[string]plan.Plan{
		"in sync":           planFor(pinA, pinA, heldB),
		"nothing is pinned": {Held: gen.Notes(heldB)},
	} {
		t.Run(name, func(t *testing.T) {
			d := gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinA), gen.Annotated(keys.Held, heldB))
			seen, want := seenIn(d, p)
			if ops := r.patch(d, seen, want); ops != nil {
				t.Errorf("patch %+v", ops)
			}
		})
	}
	t.Run("a workload that follows nothing keeps its notes", func(t *testing.T) {
		d := gen.Deployment("web", gen.Pinned(pinA), gen.Annotated(keys.Held, heldB), gen.Annotated(keys.Hashes, "configmap/app=h@1"))
		if ops := r.patch(d, &observed{template: &d.Spec.Template}, intent{}); ops != nil {
			t.Errorf("patch %+v", ops)
		}
	})
}

// A rollback at the same moment must not be moved forward again (rule 4), and what was just frozen or opted out is not pinned (rule 32).
func TestPatchRequiresPlannedGenerationAndSettings(t *testing.T) {
	d := gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinA))
	d.Generation = 7
	seen, intended := seenIn(d, planFor(pinA, pinB, ""))
	data, err := json.Marshal((&Engine{Kind: workload.Deployment}).patch(d, seen, intended))
	if err != nil {
		t.Fatal(err)
	}
	const before = `[{"op":"test","path":"/metadata/uid","value":"deployment-web"},{"op":"test","path":"/metadata/generation","value":7},` +
		`{"op":"test","path":"/metadata/annotations/confrev.io~1track","value":"all"},`
	const after = `,{"op":"test","path":"/metadata/labels","value":null},` +
		`{"op":"add","path":"/spec/template/metadata/annotations/confrev.io~1pins","value":"configmap/app=app-cccccccccc@2"}]`
	const frozen = `{"op":"test","path":"/metadata/annotations/confrev.io~1freeze-until","value":null}`
	if text := string(data); !strings.HasPrefix(text, before) || !strings.Contains(text, frozen) || !strings.HasSuffix(text, after) {
		t.Errorf("got  %s\nwant %s…%s…%s", data, before, frozen, after)
	}
}

// A workload without annotations gets its first notes as one map, which must not replace those that others wrote meanwhile.
func TestPatchRequiresThatThereAreStillNoAnnotations(t *testing.T) {
	d := gen.Deployment("web", gen.Pinned(pinA))
	d.Generation, d.Annotations = 7, nil
	seen, intended := seenIn(d, planFor(pinA, pinA, heldB))
	data, err := json.Marshal((&Engine{Kind: workload.Deployment}).patch(d, seen, intended))
	if err != nil {
		t.Fatal(err)
	}
	const none, notes = `{"op":"test","path":"/metadata/annotations","value":null}`, `{"op":"add","path":"/metadata/annotations","value":{`
	if text := string(data); !strings.Contains(text, none) || strings.Index(text, none) > strings.Index(text, notes) {
		t.Errorf("got %s\nwant %s before %s…", data, none, notes)
	}
}

// What someone denies is not taken for a change by another client, whatever reason they give.
func TestWhatIsDeniedIsNoChange(t *testing.T) {
	d := gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinA))
	status := func(reason metav1.StatusReason, text string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Reason: reason, Message: text}}
	}
	for name, test := range map[string]struct {
		err            error
		denied, change bool
	}{
		"a conflict":                 {err: status(metav1.StatusReasonConflict, "the object has been modified"), change: true},
		"a webhook":                  {err: status(metav1.StatusReasonForbidden, `admission webhook "x.y" denied the request`), denied: true},
		"a webhook with a conflict":  {err: status(metav1.StatusReasonConflict, `admission webhook "x.y" denied the request`), denied: true},
		"what another try may write": {err: status(metav1.StatusReasonTimeout, "too slow")},
	} {
		t.Run(name, func(t *testing.T) {
			c := interceptor.NewClient(fake.NewClientBuilder().WithObjects(d.DeepCopy()).Build(), interceptor.Funcs{
				Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
					return test.err
				},
			})
			err := (&Engine{Kind: workload.Deployment, Client: c}).send(t.Context(), d.DeepCopy(), nil)
			terminal, is := errors.AsType[*notice.TerminalError](err)
			if is != test.denied || is && terminal.Reason != notice.WriteRefused || revision.IsChanged(err) != test.change || err == nil {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestPinnedListsRevisionsAndNotSources(t *testing.T) {
	got := index.Pins("configmap/app=app-bbbbbbbbbb@1,secret/db=db-xxxxxxxxxx@2")
	want := map[string]bool{"configmap/app-bbbbbbbbbb": true, "secret/db-xxxxxxxxxx": true}
	if len(got) != 2 || !want[got[0]] || !want[got[1]] || got[0] == got[1] {
		t.Errorf("pinned = %v", got)
	}
	for _, text := range []string{"", "oops", pinA + ",oops"} {
		if got := index.Pins(text); len(got) > 0 {
			t.Errorf("pinned(%q) = %v", text, got)
		}
	}
}

func TestNeedsRevisionOnlyOfWhatIsPinnedAnew(t *testing.T) {
	a, b := pin.Pin{Revision: "app-bbbbbbbbbb", Number: 1}, pin.Pin{Revision: "app-cccccccccc", Number: 2}
	tests := map[string]struct {
		decision plan.Decision
		want     bool
	}{
		"an advance":       {plan.Decision{Verdict: plan.Advanced, From: a, To: b, Current: b}, true},
		"a first pin":      {plan.Decision{Verdict: plan.Pinned, To: b, Current: b}, true},
		"a hold":           {plan.Decision{Verdict: plan.Held, From: a, To: a, Current: b}, false},
		"a missing source": {plan.Decision{Verdict: plan.SourceMissing, From: a, To: a}, false},
		"in sync, but the revision is lost (rule 9)": {plan.Decision{Verdict: plan.InSync, From: a, To: a, Current: a}, true},
		"in sync by other keys":                      {plan.Decision{Verdict: plan.InSync, From: a, To: a, Current: b}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.decision.Source = gen.Source("configmap/app")
			seen := &observed{sources: map[pin.Source]revision.Observation{}}
			if got := seen.needsRevision(test.decision); got != test.want {
				t.Errorf("needsRevision = %v", got)
			}
		})
	}
}
