package rollout

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// Rules 6 and 36: the deletion of an optional source does not spread, but there is a safe way: a freeze of the namespace holds it back, and after a change
// to empty content, which spreads, it is no change.
func TestHowAnOptionalSourceIsDeletedSafely(t *testing.T) {
	empty := gen.ConfigMap("app", nil)
	hash := content.FromConfigMap(empty).Hash()
	made := gen.ConfigMap(content.RevisionName("app", hash, 0), nil)
	made.Immutable, made.Labels = new(true), map[string]string{keys.Content: string(hash), keys.Source: "app"}
	made.Annotations = map[string]string{keys.SourceName: "app", keys.Number: "2", keys.SourceVersion: "uid/7"}
	for name, test := range map[string]struct {
		pins     string
		settings map[string]string
		want     plan.Verdict
	}{
		"at once":         {gen.PinOfApp("a", "1"), map[string]string{keys.Steps: "1"}, plan.Advanced},
		"frozen":          {gen.PinOfApp("a", "1"), map[string]string{keys.FreezeUntil: "2999-01-01"}, plan.Waiting},
		"emptied, before": {"configmap/app=" + made.Name + "@2", nil, plan.InSync},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gen.Namespace, Annotations: test.settings}}
			d := gen.Deployment("web", gen.Tracking("all"), gen.Template(gen.EnvFrom("configmap/app", gen.Optional(true))), gen.Pinned(test.pins))
			w := newAdmissionWorld(t, workload.Deployment, namespace, gen.RevisionOfApp("a", "1"), made.DeepCopy(), d, gen.ReplicaSet("web-1", d, 1))
			w.Others = stopped{}
			look, err := w.Assess(t.Context(), d, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := look.Pins.Decisions[0]; got.Verdict != test.want {
				t.Errorf("it is %s: %+v", got.Verdict, got)
			}
		})
	}
}
