package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// setOf returns a StatefulSet with the annotations and the template of a Deployment.
func setOf(d *appsv1.Deployment) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: *d.ObjectMeta.DeepCopy(), Spec: appsv1.StatefulSetSpec{Template: *d.Spec.Template.DeepCopy()}}
}

// revisionOf returns the ControllerRevision of a StatefulSet, to which its controller copies the annotations too.
func revisionOf(t *testing.T, name string, number int64, set *appsv1.StatefulSet) *appsv1.ControllerRevision {
	t.Helper()
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": set.Spec.Template}})
	if err != nil {
		t.Fatal(err)
	}
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: gen.Namespace, Name: name, UID: types.UID(name), Annotations: set.Annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: set.Name, UID: set.UID, Controller: new(true)}},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: number,
	}
}

// Rule 21.5: no undo brings back annotations of a StatefulSet, so a request that changes them means it, also when it goes back to earlier code.
func TestSettingsOfOtherKindsCountInAnUndo(t *testing.T) {
	a, b := gen.PinOfApp("a", "1"), gen.PinOfApp("b", "2")
	frozen := gen.Annotated(keys.FreezeUntil, "2999-01-01")
	request := setOf(gen.Web("1", gen.Pinned(a), frozen))
	old := setOf(gen.Web("2", gen.Pinned(b), gen.Annotated(keys.Advance, "manual")))
	w := newAdmissionWorld(t, workload.StatefulSet, gen.App("c"), gen.RevisionOfApp("a", "1"), gen.RevisionOfApp("b", "2"),
		revisionOf(t, "web-1", 1, request), revisionOf(t, "web-2", 2, old))
	got := w.admitted(t, request, old, true)
	if pins := workload.StatefulSet.PinsText(got); pins != a {
		t.Errorf("it is no undo, but has pins %s", pins)
	}
	if said := got.GetAnnotations(); said[keys.FreezeUntil] != "2999-01-01" || said[keys.Advance] != "" {
		t.Errorf("settings are %q", said)
	}
}

// Rule 21.5: a request that goes back to earlier code and opts out is not followed.
func TestEarlierCodeThatOptsOut(t *testing.T) {
	a, b := gen.PinOfApp("a", "1"), gen.PinOfApp("b", "2")
	before := gen.Ran("web-1", 1, "1", a)
	before.Annotations[keys.Track] = "all"
	w := newAdmissionWorld(t, workload.Deployment, gen.App("b"), gen.RevisionOfApp("a", "1"), gen.RevisionOfApp("b", "2"), before, gen.Ran("web-2", 2, "2", b))
	got := w.admitted(t, gen.Web("1", gen.Pinned(a), gen.Tracking("none")), gen.Web("2", gen.Pinned(b)), true)
	if track := got.GetAnnotations()[keys.Track]; track != "none" {
		t.Errorf("%s is %q", keys.Track, track)
	}
}

// Rule 21.5: while the ReplicaSet cannot be read, its settings may be those of the request. It is read only if the request changes a setting.
func TestSettingsAreKeptWhileTheReplicaSetCannotBeRead(t *testing.T) {
	a, b := gen.PinOfApp("a", "1"), gen.PinOfApp("b", "2")
	w := newAdmissionWorld(t, workload.Deployment, gen.App("b"), gen.RevisionOfApp("a", "1"), gen.RevisionOfApp("b", "2"),
		gen.Ran("web-1", 1, "1", a), gen.Ran("web-2", 2, "2", b))
	asked := 0
	w.Whole = interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
			if _, is := obj.(*appsv1.ReplicaSet); !is {
				return c.Get(ctx, key, obj, options...)
			}
			asked++
			return errors.New("no connection")
		},
	})
	old := gen.Web("2", gen.Pinned(b))
	if w.admitted(t, gen.Web("1", gen.Pinned(a)), old, true); asked > 0 {
		t.Errorf("it was read %d times for nothing", asked)
	}
	got := w.admitted(t, gen.Web("1", gen.Pinned(a), gen.Annotated(keys.Advance, "manual")), old, true)
	if mode := got.GetAnnotations()[keys.Advance]; mode != "" || asked != 1 {
		t.Errorf("%s is %q, after it was read %d times", keys.Advance, mode, asked)
	}
}
