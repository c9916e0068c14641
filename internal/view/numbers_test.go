package view

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/operator"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// Rules 4, 5 and 20: a revision has the number that pins show, not the one that anyone wrote on it. A workload that was rolled back
// stays, whatever numbers the revisions of others have.
func TestOnlyPinsGiveARevisionAHighNumber(t *testing.T) {
	copied, elsewhere := revisionNameOf("3"), "configmap/app="+revisionNameOf("3")+"@5"
	pinning := gen.Deployment("other", gen.Pinned(elsewhere))
	const first, second = "@1", "@2"
	tests := map[string]struct {
		template string
		others   []client.Object
		verdict  plan.Verdict
		number   int64
	}{
		"in sync, and nothing pins the copy":          {appB + second, nil, plan.InSync, 2},
		"in sync, and another workload pins the copy": {appB + second, []client.Object{pinning}, plan.InSync, 6},
		"rolled back, and nothing pins the copy":      {appA + first, nil, plan.Held, 2},
		"rolled back, and another workload pins it":   {appA + first, []client.Object{pinning}, plan.Held, 6},
		"rolled back, and a holder of it pins it": {
			appA + first, []client.Object{gen.ReplicaSet("other-1", pinning, 1)}, plan.Held, 6},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			web := gen.Deployment("web", gen.Pinned("configmap/app="+test.template), gen.Tracking("all"), gen.Template(gen.EnvFrom("configmap/app")))
			holder := func(name, pins string, order int64) client.Object {
				of := web.DeepCopy()
				gen.Pinned("configmap/app=" + pins)(of)
				return gen.ReplicaSet(name, of, order)
			}
			objects := append([]client.Object{
				gen.ConfigMap("app", map[string]string{"v": "2"}), web, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gen.Namespace}},
				madeOf(appA, "1", "1"), madeOf(appB, "2", "2"), madeOf(copied, "900", "3"),
				// Another copy of the present content is not newer than it.
				madeOf("app-bcdfghjklm", "800", "2"),
				holder("web-1", appA+first, 1), holder("web-2", appB+second, 2),
			}, test.others...)
			c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).Build()
			planner, err := NewPlannerOf(t.Context(), c, operator.Options{Options: rollout.Options{Injection: optin.Admission}}, gen.Namespace, []workload.Kind{workload.Deployment})
			if err != nil {
				t.Fatal(err)
			}
			look, err := planner.Assess(t.Context(), workload.Deployment, planner.Workload(workload.Deployment, client.ObjectKeyFromObject(web)))
			if err != nil {
				t.Fatal(err)
			}
			if got := look.Pins.Decisions[0]; got.Verdict != test.verdict || got.Current.Revision != appB || got.Current.Number != test.number {
				t.Errorf("%s, current is %s", got.Verdict, got.Current)
			}
		})
	}
}
