package reconcile

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/gen"
)

// Rule 21.2: content that never ran stays pending after an undo, and settling starts again with the undo.
func TestSettlingStartsAgainWithAnUndo(t *testing.T) {
	a, b := gen.PinOfApp("a", "1"), gen.PinOfApp("b", "2")
	obj := gen.Web("2", gen.Pinned(b), gen.Annotated(keys.Settle, "1m"))
	w := newWorld(obj, gen.RevisionOfApp("a", "1"), gen.RevisionOfApp("b", "2"), gen.App("b"), gen.Ran("web-1", 1, "1", a), gen.Ran("web-2", 2, "2", b))
	now := gen.Created.Time
	w.Now = func() time.Time { return now }
	reconcile := func() (time.Duration, *appsv1.Deployment) {
		t.Helper()
		result, err := w.Reconcile(t.Context(), requests([]client.Object{obj})[0])
		if err != nil {
			t.Fatal(err)
		}
		got := &appsv1.Deployment{}
		if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(obj), got); err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter, got
	}
	reconcile()
	if err := w.client.Patch(t.Context(), gen.App("c"), client.RawPatch(types.MergePatchType, []byte(`{"data":{"k":"c"}}`))); err != nil {
		t.Fatal(err)
	}
	if wait, _ := reconcile(); wait != time.Minute {
		t.Fatalf("an edit settles for %s", wait)
	}
	now = now.Add(50 * time.Second)
	wait, before := reconcile()
	if wait != 10*time.Second {
		t.Fatalf("50 s later it settles for %s", wait)
	}
	undo := before.DeepCopy()
	undo.Spec.Template.Annotations[keys.Pins] = a
	undo.Spec.Template.Spec.Containers[0].Image = "1"
	undone := w.admitted(t, undo, before)
	undone.SetResourceVersion("")
	if err := w.client.Update(t.Context(), undone); err != nil {
		t.Fatal(err)
	}
	if wait, got := reconcile(); wait != time.Minute || got.Spec.Template.Annotations[keys.Pins] != a {
		t.Errorf("after the undo it settles for %s, with pins %s", wait, got.Spec.Template.Annotations[keys.Pins])
	}
	now = now.Add(time.Minute)
	if _, got := reconcile(); !strings.Contains(got.Spec.Template.Annotations[keys.Pins], gen.NameOfRevision("c")) {
		t.Errorf("once it has settled, it has pins %s", got.Spec.Template.Annotations[keys.Pins])
	}
}
