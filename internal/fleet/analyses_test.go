package fleet

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/analysis"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/workload"
)

// Rule 43: an analysis that ended without a result runs again once its AnalysisRun is deleted, which is looked for now and then.
func TestAnAnalysisWithoutAResultRunsAgain(t *testing.T) {
	now, read := noon, 0
	template := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"metrics": []any{map[string]any{"name": "one"}}}}}
	template.SetGroupVersionKind(analysis.TemplateKind)
	template.SetNamespace("x")
	template.SetName("error-rate")
	runs := fake.NewClientBuilder().WithObjects(template).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			read++
			return c.Get(ctx, key, obj, opts...)
		},
	}).Build()
	f, s := New(nil, func() time.Time { return now }), surveyed(0)
	f.ReadAnalyses(runs)
	of := has(recorded)
	of.Analysis = []string{"error-rate"}
	of.Subject = analysis.Subject{Owner: metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "uid-1"}, Namespace: "x", At: noon}
	s.Workloads = map[string]Workload{"web": {Engine: &rollout.Engine{Kind: workload.Deployment}, standing: of}}
	c := f.change(s.Source)
	look := func() spread.Stage {
		c.begin(s)
		m := c.member(s, "web", of, now.Add(time.Hour))
		s.Spread = spread.Look([]spread.Member{m}, s.Settings, 0, spread.Place{})
		return m.Stage
	}
	run, why := of.Subject.Run(template)
	if why != "" {
		t.Fatal(why)
	}
	_ = unstructured.SetNestedField(run.Object, "Inconclusive", "status", "phase")
	if err := runs.Create(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		after   time.Duration
		deleted bool
		want    spread.Stage
		awaited int
		asks    bool
	}{
		{0, false, spread.Parked, 0, true}, {time.Second, false, spread.Parked, 0, false}, {readAgain, false, spread.Parked, 0, true},
		{readAgain + time.Second, true, spread.Parked, 0, false}, {2 * readAgain, false, spread.Baking, 1, true},
	} {
		if now = noon.Add(step.after); step.deleted {
			if err := runs.Delete(t.Context(), run); err != nil {
				t.Fatal(err)
			}
		}
		look()
		before := read
		f.readAnalyses(t.Context(), s)
		if got := look(); got != step.want || len(f.Analyses(s)) != step.awaited || (read > before) != step.asks {
			t.Errorf("%d: it is %s, %d analyses are to come, and %d requests were sent", i, got, len(f.Analyses(s)), read-before)
		}
	}
}
