package reconcile

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/waiting"
	"confrev.io/confrev/test/gen"
)

// Rule 34: edits during a freeze become one rollout when it ends, at which time the controller looks by itself; 20 of them are counted as
// one workload that waits.
func TestEditsDuringAFreezeAreOneRollout(t *testing.T) {
	const frozen = 20 * time.Minute
	obj := gen.Web("1", gen.Annotated(keys.Settle, "0s"), gen.Annotated(keys.FreezeUntil, gen.Created.Add(frozen).Format(time.RFC3339)))
	w := newWorld(obj, gen.App("0"))
	now := gen.Created.Time
	w.Now = func() time.Time { return now }
	reconcile := func() (time.Duration, string) {
		t.Helper()
		result, err := w.Reconcile(t.Context(), requests([]client.Object{obj})[0])
		if err != nil {
			t.Fatal(err)
		}
		got := &appsv1.Deployment{}
		if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(obj), got); err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter, got.Spec.Template.Annotations[keys.Pins]
	}
	wait, first := reconcile()
	if first == "" || wait != 0 {
		t.Fatalf("the first pin is %q, and it waits %s", first, wait)
	}
	for value := range strings.SplitSeq("abcdefghijklmnopqrst", "") {
		if err := w.client.Patch(t.Context(), gen.App(value), client.RawPatch(types.MergePatchType, []byte(`{"data":{"k":"`+value+`"}}`))); err != nil {
			t.Fatal(err)
		}
		if wait, pins := reconcile(); pins != first || wait != maxSleep {
			t.Fatalf("with %s, it has pins %s and waits %s", value, pins, wait)
		}
	}
	stood := w.States.of[stated{w.Kind.Resource(), client.ObjectKeyFromObject(obj)}]
	if stood != (standing{stateWaiting, waiting.Frozen}) {
		t.Errorf("it is %+v", stood)
	}
	now = now.Add(frozen - time.Minute)
	if wait, pins := reconcile(); pins != first || wait != time.Minute {
		t.Fatalf("a minute before, it has pins %s and waits %s", pins, wait)
	}
	now = now.Add(time.Minute)
	wait, pins := reconcile()
	if !strings.Contains(pins, gen.NameOfRevision("t")+"@2") || wait != 0 {
		t.Errorf("afterwards it has pins %s and waits %s", pins, wait)
	}
}
