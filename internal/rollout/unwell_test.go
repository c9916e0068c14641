package rollout

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// Rule 40: a workload was not well before only if the API server says so. With a cache that is behind, a failure would not count.
func TestWhetherAWorkloadWasWell(t *testing.T) {
	well := func(d *appsv1.Deployment) {
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1, Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentProgressing, Reason: "NewReplicaSetAvailable", Message: `ReplicaSet "web-1" has successfully progressed.`, LastUpdateTime: metav1.Now()}}}
	}
	// Even an annotation is a change to a Deployment that its controller has to see.
	annotated := func(d *appsv1.Deployment) { well(d); d.Generation = 2 }
	unwell := func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{} }
	for name, test := range map[string]struct {
		cached, live gen.DeploymentModifier
		unwell       bool
	}{
		"well": {well, well, false}, "the cache is behind": {unwell, well, false}, "unwell": {unwell, unwell, true},
		// It is not read again: that it fails now may be because of anything.
		"well until a moment ago": {well, unwell, false},
		"annotated a moment ago":  {annotated, annotated, false},
	} {
		t.Run(name, func(t *testing.T) {
			app := gen.App("b")
			app.Annotations = map[string]string{keys.Steps: "1"}
			pinned := gen.Pinned(gen.PinOfApp("a", "1"))
			w := newAdmissionWorld(t, workload.Deployment, app, gen.RevisionOfApp("a", "1"), gen.ReplicaSet("web-1", gen.Web("1", pinned), 1))
			w.Whole = fake.NewClientBuilder().WithObjects(gen.Web("1", pinned, test.live)).Build()
			var obj client.Object = gen.Web("1", pinned, test.cached)
			look, err := w.Assess(t.Context(), obj, nil)
			if err != nil {
				t.Fatal(err)
			}
			note, ok := spread.ParseAdvance(look.want.advanced(w.Engine, obj, look.seen))
			if !ok || len(note.To) != 1 || note.Unwell != test.unwell {
				t.Errorf("%+v, %v", note, ok)
			}
		})
	}
}

// Rule 40: whether a workload was well before, those show that roll its template out. A Deployment whose template a Rollout uses has no pods.
func TestWhetherARolloutWasWell(t *testing.T) {
	for name, test := range map[string]struct {
		cached, live string
		unwell       bool
	}{
		"well": {"Healthy", "Healthy", false}, "unwell": {"Degraded", "Degraded", true}, "the cache is behind": {"Degraded", "Healthy", false},
	} {
		t.Run(name, func(t *testing.T) {
			referring := func(phase string) client.Object {
				obj := rolloutOf("web", "apps/v1", "Deployment", "web")
				obj.SetUID("rollout")
				obj.SetGeneration(1)
				obj.Object["status"] = map[string]any{"observedGeneration": "1", "phase": phase, "stableRS": "a", "currentPodHash": "a"}
				return obj
			}
			app := gen.App("b")
			app.Annotations = map[string]string{keys.Steps: "1"}
			pins := gen.PinOfApp("a", "1")
			d := gen.Web("1", gen.Pinned(pins), gen.Replicas(0))
			ran := gen.ReplicaSet("web-1", d, 1)
			ran.OwnerReferences[0].UID = "rollout"
			w := newAdmissionWorld(t, workload.Deployment, app, gen.RevisionOfApp("a", "1"), ran, referring(test.cached))
			w.Kinds.Add(workload.Rollout)
			w.Whole = fake.NewClientBuilder().WithObjects(referring(test.live)).Build()
			look, err := w.Assess(t.Context(), d, nil)
			if err != nil {
				t.Fatal(err)
			}
			note, ok := spread.ParseAdvance(look.want.advanced(w.Engine, d, look.seen))
			if !ok || len(note.To) != 1 || note.Unwell != test.unwell {
				t.Errorf("%+v, %v", note, ok)
			}
		})
	}
}
