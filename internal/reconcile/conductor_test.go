package reconcile

import (
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/fleet"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/test/gen"
)

// Rule 40: the process before this one ended after it had recorded a stop. That what has the change is rolled back must not depend on whether
// anything happens to it.
func TestAConductorThatStartsLooksAtWhatWorkloadsHaveTaken(t *testing.T) {
	source := gen.Source("configmap/app")
	note := spread.Advance{To: pin.Set{source: {Revision: "app-bbbbbbbbbb", Number: 2}}, From: pin.Set{source: {Revision: "app-aaaaaaaaaa", Number: 1}}, At: time.Now()}
	d := gen.Web("1", gen.Annotated(keys.Advanced, note.String()))
	w := newWorld(d)
	w.Conductor = &Conductor{Fleet: fleet.New(w.client, time.Now), States: NewStates(false)}
	for range 2 {
		if _, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(d)}); err != nil {
			t.Fatal(err)
		}
	}
	want := revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: "app"}
	if asked := w.Conductor.queue.before; len(asked) != 1 || asked[0] != want {
		t.Errorf("it looks at %v", asked)
	}
}
