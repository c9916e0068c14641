package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

func TestSetTouchesOneKeyOnly(t *testing.T) {
	other := map[string]string{"other": "x"}
	has := map[string]string{"other": "x", keys.Pins: "old"}
	tests := map[string]struct {
		existing map[string]string
		value    string
		want     []operation
	}{
		"a value among others":                 {other, "v", []operation{{Op: "add", Path: "/a/confrev.io~1pins", Value: "v"}}},
		"a value that takes another's place":   {has, "v", []operation{{Op: "add", Path: "/a/confrev.io~1pins", Value: "v"}}},
		"a value where there is no map":        {nil, "v", []operation{{Op: "add", Path: "/a", Value: map[string]string{keys.Pins: "v"}}}},
		"a value in an empty map":              {map[string]string{}, "v", []operation{{Op: "add", Path: "/a", Value: map[string]string{keys.Pins: "v"}}}},
		"nothing takes a value's place":        {has, "", []operation{{Op: "remove", Path: "/a/confrev.io~1pins"}}},
		"nothing where there is nothing":       {other, "", nil},
		"nothing where there is no map at all": {nil, "", nil},
		"nothing takes an empty value's place": {map[string]string{keys.Pins: ""}, "", []operation{{Op: "remove", Path: "/a/confrev.io~1pins"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, set("/a", test.existing, keys.Pins, test.value)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// planFor makes a plan that moves the pins of source configmap/app.
func planFor(from, to, held string) plan.Plan {
	app := gen.Source("configmap/app")
	p := plan.Plan{Pins: gen.Pins(to), Held: gen.Pins(held)}
	p.Decisions = []plan.Decision{{Source: app, From: gen.Pins(from)[app], To: gen.Pins(to)[app]}}
	return p
}

const (
	pinA = "configmap/app=app-a@1"
	pinB = "configmap/app=app-b@2"
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
			gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinA), gen.Annotated(keys.Held, pinB)),
			gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinB)), planFor(pinA, pinB, ""),
		},
		"a note, and no rollout (rule 4)": {
			gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinA)),
			gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinA), gen.Annotated(keys.Held, pinB)), planFor(pinA, pinA, pinB),
		},
		"a note on a workload without annotations": {
			gen.Deployment("web", gen.Pinned(pinA)), gen.Deployment("web", gen.Pinned(pinA), gen.Annotated(keys.Held, pinB)), planFor(pinA, pinA, pinB),
		},
		"a malformed note goes": {
			gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinA), gen.Annotated(keys.Held, "oops")),
			gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinA)), planFor(pinA, pinA, ""),
		},
		"malformed pins are written anew": {
			gen.Deployment("web", gen.Tracking("all"), gen.Pinned("oops")), gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinA)), planFor("", pinA, ""),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(test.before.DeepCopy()).Build()
			r := &workloads{kind: workload.Deployment{}, client: c}
			if err := r.send(t.Context(), test.before.DeepCopy(), r.patch(test.before, test.plan)); err != nil {
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

// Rule 3: what is as it should be is not written.
func TestNoPatchWhereThereIsNothingToDo(t *testing.T) {
	r := &workloads{kind: workload.Deployment{}}
	for name, p := range map[string]plan.Plan{
		"in sync":           planFor(pinA, pinA, pinB),
		"nothing is pinned": {Held: gen.Pins(pinB)},
	} {
		t.Run(name, func(t *testing.T) {
			d := gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinA), gen.Annotated(keys.Held, pinB))
			if ops := r.patch(d, p); ops != nil {
				t.Errorf("patch %+v", ops)
			}
		})
	}
}

// A rollback at the same moment must not be moved forward again (rule 4).
func TestThePatchAppliesOnlyToTheGenerationThatThePlanWasMadeFor(t *testing.T) {
	d := gen.Deployment("web", gen.Tracking("all"), gen.Pinned(pinA))
	d.Generation = 7
	ops := (&workloads{kind: workload.Deployment{}}).patch(d, planFor(pinA, pinB, ""))
	want := []operation{
		{Op: "test", Path: "/metadata/uid", Value: d.UID}, {Op: "test", Path: "/metadata/generation", Value: int64(7)},
	}
	if len(ops) < 3 {
		t.Fatalf("patch %+v", ops)
	}
	if diff := cmp.Diff(want, ops[:2]); diff != "" {
		t.Errorf("the first operations (-want +got):\n%s", diff)
	}
	data, err := json.Marshal(ops)
	if err != nil {
		t.Fatal(err)
	}
	const text = `[{"op":"test","path":"/metadata/uid","value":"deployment-web"},{"op":"test","path":"/metadata/generation","value":7},` +
		`{"op":"add","path":"/spec/template/metadata/annotations/confrev.io~1pins","value":"configmap/app=app-b@2"}]`
	if string(data) != text {
		t.Errorf("got  %s\nwant %s", data, text)
	}
}

func TestTestFailedTellsAFailedTestFromARefusal(t *testing.T) {
	kind := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	// This is how k8s.io/apiserver/pkg/endpoints/handlers/patch.go answers; the library's own text is lost on the way.
	failed := apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "",
		"testing value /metadata/generation failed: test failed", 0, false)
	tests := map[string]struct {
		err  error
		want bool
	}{
		"a failed test":            {failed, true},
		"a failed test, wrapped":   {fmt.Errorf("patch: %w", failed), true},
		"a refusal by validation":  {apierrors.NewInvalid(kind, "web", field.ErrorList{field.Invalid(field.NewPath("spec"), "x", "no")}), false},
		"a conflict":               {apierrors.NewConflict(schema.GroupResource{}, "web", errors.New("x")), false},
		"a refusal by a policy":    {apierrors.NewForbidden(schema.GroupResource{}, "web", errors.New("x")), false},
		"another error altogether": {errors.New("testing value failed"), false},
		"no error":                 {nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := testFailed(test.err); got != test.want {
				t.Errorf("testFailed = %v", got)
			}
		})
	}
}

func TestOutcome(t *testing.T) {
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "app-a", errors.New("going away"))
	terminating.ErrStatus.Details.Causes = append(terminating.ErrStatus.Details.Causes, metav1.StatusCause{Type: namespaceTerminating})
	other := errors.New("no route to host")
	tests := map[string]struct {
		err     error
		soon    bool
		wantErr error
	}{
		"all went well":                     {},
		"the world moved on":                {err: revision.Changed("deployment default/web"), soon: true},
		"the world moved on, among others":  {err: errors.Join(nil, fmt.Errorf("x: %w", revision.Changed("y"))), soon: true},
		"the namespace is being deleted":    {err: terminating},
		"what may go well when tried again": {err: other, wantErr: other},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			result, err := outcome(t.Context(), 0, test.err)
			if !errors.Is(err, test.wantErr) || (err == nil) != (test.wantErr == nil) {
				t.Errorf("error %v, want %v", err, test.wantErr)
			}
			if (result.RequeueAfter > 0) != test.soon {
				t.Errorf("looks again after %s", result.RequeueAfter)
			}
		})
	}
}

func TestPinnedListsRevisionsAndNotSources(t *testing.T) {
	got := pinned("configmap/app=app-a@1,secret/db=db-x@2")
	want := map[string]bool{"configmap/app-a": true, "secret/db-x": true}
	if len(got) != 2 || !want[got[0]] || !want[got[1]] || got[0] == got[1] {
		t.Errorf("pinned = %v", got)
	}
	for _, text := range []string{"", "oops", pinA + ",oops"} {
		if got := pinned(text); len(got) > 0 {
			t.Errorf("pinned(%q) = %v", text, got)
		}
	}
}

func TestNeedsRevisionOnlyOfWhatIsPinnedAnew(t *testing.T) {
	a, b := pin.Pin{Revision: "app-a", Number: 1}, pin.Pin{Revision: "app-b", Number: 2}
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
			seen := observed{sources: map[pin.Source]revision.Observation{}}
			if got := seen.needsRevision(test.decision); got != test.want {
				t.Errorf("needsRevision = %v", got)
			}
		})
	}
}
