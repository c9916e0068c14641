package reconcile

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/fleet"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/test/gen"
)

// Rules 5 and 40: who may edit only a workload ends no stop by a note that names a high number, neither for this workload nor for others.
func TestANoteWithAHighNumberEndsNoStop(t *testing.T) {
	a, b := gen.PinOfApp("a", "1"), gen.PinOfApp("b", "3")
	held := "configmap/app=app-zzzzzzzzzz@999;on=" + a[len("configmap/app="):] + ";ended"
	attacker := gen.Web("1", gen.Pinned(a), gen.Annotated(keys.Held, held), gen.Annotated(keys.Settle, "0s"))
	other := gen.Web("1", gen.Pinned(a), gen.Annotated(keys.Settle, "0s"))
	other.Name, other.UID = "other", "other"
	source := gen.App("b")
	source.Annotations = map[string]string{keys.OnFailure: "stop"}
	bad := gen.RevisionOfApp("b", "3")
	bad.UID = "bad"
	bad.Annotations[keys.Propagation] = spread.Record{Revision: "bad", Number: 3, Stops: 1, Failed: []spread.Failure{{Member: "deployment/first"}}}.String()
	w := newWorld(attacker, other, source, gen.RevisionOfApp("a", "1"), bad)
	w.Others = fleet.Stops{Client: w.client}
	w.Conductor = &Conductor{Fleet: fleet.New(w.client, time.Now), States: NewStates(false)}
	for range 4 {
		for _, obj := range []client.Object{attacker, other} {
			if _, err := w.Reconcile(t.Context(), requests([]client.Object{obj})[0]); err != nil {
				t.Fatal(err)
			}
			got := &appsv1.Deployment{}
			if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(obj), got); err != nil {
				t.Fatal(err)
			}
			if pins := got.Spec.Template.Annotations[keys.Pins]; pins != a {
				t.Errorf("%s has pins %s instead of %s: it took what is stopped (%s)", obj.GetName(), pins, a, b)
			}
		}
	}
	meta := revision.Metadata(revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: bad.Name})
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(meta), meta); err != nil {
		t.Fatal(err)
	}
	record, _ := spread.ParseRecord(meta.Annotations[keys.Propagation])
	if number := revision.Labelled(meta).Number; number != 1000 || record.Number != number || record.Since != 3 || record.Stops != 1 || record.Revision != "bad" {
		t.Errorf("number %d, and %+v is noted", number, record)
	}
}
