//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/analysis"
	"confrev.io/confrev/internal/keys"
)

// measures writes AnalysisTemplate smoke, whose only metric is a Job.
func (w *world) measures(job string) {
	w.Helper()
	w.KubectlIn(fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: AnalysisTemplate
metadata: {name: smoke}
spec:
  args: [{name: workload}]
  metrics:
  - name: smoke
    provider:
      job:
        spec:
          backoffLimit: 0
          %s
          template:
            metadata: {labels: {checks: "{{args.workload}}"}}
            spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [{name: check, image: "check:1"}]}
`, job), "apply", "-f", "-")
}

// analysisRuns returns those of the namespace.
func (w *world) analysisRuns() []unstructured.Unstructured {
	w.Helper()
	runs := &unstructured.UnstructuredList{}
	runs.SetGroupVersionKind(analysis.RunKind)
	w.Must(cluster.Client.List(w.Ctx, runs, client.InNamespace(w.NS)))
	return runs.Items
}

const (
	succeeds = ""
	fails    = "activeDeadlineSeconds: 1"
)

// Rule 43: an analysis of Argo Rollouts, with its real controller, decides whether a workload of another kind vouches.
func TestAnAnalysisDecides(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.fleet(map[string]string{keys.Steps: "1", keys.Bake: "4s", keys.OnFailure: "undo", keys.Analysis: "of-a-source"}, "a", "b")
	w.measures(succeeds)
	w.Kubectl("annotate", "deployment/a", keys.Analysis+"=smoke")
	w.Edit("shared", "color", "B")
	w.allHave(first, "a", "b")
	// That the last one stays healthy for long enough is no event of any object.
	w.confrev("status", "configmap/shared", "--wait", "--timeout="+patience.String()).ends(0, "revision 2 is Complete, 2 of 2 vouch for it")
	// Only a workload or its namespace may ask for one, and it is about the workload.
	if runs := w.analysisRuns(); len(runs) != 1 || !strings.HasPrefix(runs[0].GetName(), "a-smoke-") || runs[0].GetOwnerReferences()[0].Name != "a" {
		t.Errorf("there are %d analyses: %v", len(runs), runs)
	}
	jobPods := &corev1.PodList{}
	w.Must(cluster.Client.List(w.Ctx, jobPods, client.InNamespace(w.NS), client.MatchingLabels{"checks": "a"}))
	if len(jobPods.Items) != 1 {
		t.Errorf("%d pods checked a", len(jobPods.Items))
	}

	second := w.PinOf("a", "shared")
	// Without a pod, the Job of the analysis fails at its deadline.
	w.measures(fails + "\n          parallelism: 0")
	w.Edit("shared", "color", "wrong")
	w.WaitEvent("ChangeFailed", "a", "revision 3 of configmap/shared failed: its analysis smoke failed.")
	w.goesBack("a", second)
	if p := w.PinOf("b", "shared"); p != second {
		t.Errorf("b has %s", p)
	}
	w.confrev("status", "configmap/shared").ends(4, "revision 3 is Stopped", "deployment/a failed with it")
}

// Rule 43: where an analysis can have no result, a person decides, and status says why.
func TestAnAnalysisWithoutAResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.fleet(map[string]string{keys.Steps: "1", keys.OnFailure: "undo"}, "a", "b")
	w.Kubectl("annotate", "deployment/a", keys.Analysis+"=smoke")
	w.Edit("shared", "color", "B")
	w.allHave(first, "a")
	says := func(why string) {
		w.Helper()
		w.Eventually("status says "+why, func() string {
			s := w.spreads()
			if m := s.Waves[0].Members[0]; !strings.Contains(m.Message, why) {
				return fmt.Sprintf("%+v", m)
			}
			return ""
		})
	}
	says("its analysis smoke has no result: there is no AnalysisTemplate of this name")
	w.KubectlIn(`{"apiVersion":"argoproj.io/v1alpha1","kind":"AnalysisTemplate","metadata":{"name":"smoke"},"spec":{"metrics":[{"name":"up","interval":"10s","provider":{"web":{"url":"http://127.0.0.1:1"}}}]}}`,
		"apply", "-f", "-")
	says(`its analysis smoke has no result: its metric 1 of 1 never ends: set count`)
	w.Kubectl("annotate", "deployment/a", keys.Analysis+"=Not_A_Name", "--overwrite")
	says("annotation confrev.io/analysis cannot be read")
	if runs := w.analysisRuns(); len(runs) != 0 {
		t.Errorf("there are %d analyses", len(runs))
	}
	// Once it is corrected, the change continues by itself.
	w.measures(succeeds)
	w.Kubectl("annotate", "namespace", w.NS, keys.Analysis+"=smoke")
	w.Kubectl("annotate", "deployment/a", keys.Analysis+"-")
	w.allHave(first, "a", "b")
	w.Eventually("each is analyzed", func() string {
		if runs := w.analysisRuns(); len(runs) != 2 {
			return fmt.Sprintf("%d analyses", len(runs))
		}
		return ""
	})
}
