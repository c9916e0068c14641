package rollout

import (
	"context"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/waiting"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// stopped are others that work with a revision, and do not take the present content.
type stopped struct{ instead pin.Pin }

func (s stopped) Turn(context.Context, Spreading, string) (waiting.Wait, error) {
	return waiting.ForStop("configmap/app"), nil
}

func (s stopped) Stopped(context.Context, Spreading) (waiting.Wait, pin.Pin, error) {
	return waiting.ForStop("configmap/app"), s.instead, nil
}

func (s stopped) GiveBack(context.Context, Spreading, string) {}

// waysToPin returns those in which a workload without pins gets some. Each returns the pins.
func waysToPin() map[string]func(*testing.T, *admissionWorld) string {
	return map[string]func(*testing.T, *admissionWorld) string{
		"by the controller": func(t *testing.T, w *admissionWorld) string {
			t.Helper()
			look, err := w.Assess(t.Context(), w.serve(t, gen.Web("1")), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := w.Prepare(t.Context(), &look); err != nil {
				t.Fatal(err)
			}
			return look.want.pins.Pins.String()
		},
		"in a deploy": func(t *testing.T, w *admissionWorld) string {
			t.Helper()
			// Once, as API servers do unless another webhook changes something.
			return w.patched(t, gen.Web("2"), w.serve(t, gen.Web("1")), false).(*appsv1.Deployment).Spec.Template.Annotations[keys.Pins]
		},
	}
}

// isKept reports whether the revision of app's content a stays although its other users go.
func (w *admissionWorld) isKept(t *testing.T) bool {
	t.Helper()
	meta := revision.NewMetadata(pin.ConfigMap)
	if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: gen.Namespace, Name: gen.NameOfRevision("a")}, meta); err != nil {
		t.Fatal(err)
	}
	owns := func(o metav1.OwnerReference) bool { return o.UID == gen.Web("1").UID || o.Name == revision.AnchorName }
	return slices.ContainsFunc(meta.OwnerReferences, owns) && meta.Annotations[keys.Renewed] != ""
}

// ofOther returns the revision of app's content a, which another workload owns.
func ofOther() client.Object {
	made := gen.RevisionOfApp("a", "1")
	made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "other", UID: "other"}}
	return made
}

// Rules 9, 12 and 13: a first pin to what others work with keeps that revision, which was made for them, also when they go.
func TestWhatOthersWorkWithIsKept(t *testing.T) {
	a := gen.PinOfApp("a", "1")
	source := gen.App("b")
	source.Annotations = map[string]string{keys.OnFailure: "stop"}
	for name, write := range waysToPin() {
		t.Run(name, func(t *testing.T) {
			w := newAdmissionWorld(t, workload.Deployment, source.DeepCopy(), ofOther())
			w.Others = stopped{gen.Pins(a)[gen.Source("configmap/app")]}
			if pins := write(t, w); pins != a {
				t.Fatalf("it pins %q, want %q", pins, a)
			}
			if !w.isKept(t) {
				t.Error("it is not kept")
			}
		})
	}
}

// Rules 4 and 9: the revision that a held workload gets back after it lost its pin is looked up first, and kept.
func TestWhatAHeldWorkloadGetsBackIsKept(t *testing.T) {
	a, b := gen.PinOfApp("a", "1"), gen.PinOfApp("b", "2")
	for name, write := range waysToPin() {
		t.Run(name, func(t *testing.T) {
			w := newAdmissionWorld(t, workload.Deployment, gen.App("b"), ofOther(), gen.RevisionOfApp("b", "2"),
				gen.Ran("web-2", 2, "1", b), gen.Ran("web-3", 3, "1", a))
			if pins := write(t, w); pins != a {
				t.Fatalf("it pins %q, want %q", pins, a)
			}
			if !w.isKept(t) {
				t.Error("it is not kept")
			}
		})
	}
}

// Rule 40: a change that is stopped because of failures stays so, whether or not the settings are still there that stopped it.
func TestAStopOutlastsTheSettings(t *testing.T) {
	a, b := gen.PinOfApp("a", "1"), gen.PinOfApp("b", "2")
	for name, test := range map[string]struct {
		record spread.Record
		resume string
		want   string
	}{
		"it is stopped":                 {spread.Record{Revision: "bad", Number: 2, Stops: 1}, "", a},
		"someone has resumed it":        {spread.Record{Revision: "bad", Number: 2, Stops: 1}, spread.Resume(gen.Pins(b)[gen.Source("configmap/app")], 1), b},
		"and it was stopped again":      {spread.Record{Revision: "bad", Number: 2, Stops: 2}, spread.Resume(gen.Pins(b)[gen.Source("configmap/app")], 1), a},
		"nothing has failed":            {spread.Record{Revision: "bad", Number: 2, Wave: 1}, "", b},
		"other content was there since": {spread.Record{Revision: "bad", Number: 1, Stops: 1}, "", b},
		"it is a copy":                  {spread.Record{Revision: "other", Number: 2, Stops: 1}, "", b},
	} {
		t.Run(name, func(t *testing.T) {
			source, bad, d := gen.App("b"), gen.RevisionOfApp("b", "2"), gen.Web("1", gen.Pinned(a))
			source.Annotations = map[string]string{keys.Resume: test.resume}
			bad.UID, bad.Annotations[keys.Propagation] = "bad", test.record.String()
			w := newAdmissionWorld(t, workload.Deployment, source, gen.RevisionOfApp("a", "1"), bad, gen.ReplicaSet("web-1", d, 1))
			w.Others = stopped{}
			look, err := w.Assess(t.Context(), d, nil)
			if err != nil {
				t.Fatal(err)
			}
			if pins := look.Pins.Pins.String(); pins != test.want {
				t.Errorf("it is pinned to %s, want %s", pins, test.want)
			}
		})
	}
}
