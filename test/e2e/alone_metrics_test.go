//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// metrics returns what confrev's metrics are now.
func (w *world) metrics() env.Metrics {
	w.Helper()
	metrics, err := confrev.ReadMetrics(w.Ctx)
	w.Must(err)
	return metrics
}

// What docs/metrics.md lists, and its alerts build on, moves when that happens which it counts. Not parallel: others would move
// it too.
func TestMetrics(t *testing.T) {
	w := newWorld(t)
	before := w.metrics()
	w.Create(deployment("late", envFrom("late"), gen.Tracking("configmap/late"), gen.Annotated("confrev.io/advance", "manual")),
		configMap("web", "color", "A"), configMap("other", "k", "1"),
		deployment("web", envFrom("web")), deployment("restarting", inMode(optin.Restart), envFrom("other")), orphan())
	a := w.WaitPinned("web", "web", "color", "A")
	w.WaitEvent("SourceMissing", "late", "configmap/late does not exist")
	// It is paused until then, and pinned by the controller.
	w.Create(configMap("late", "k", "v"))
	w.WaitPinned("late", "late", "k", "v")
	w.waitFollowed("restarting", "configmap/other")
	w.Edit("other", "k", "2")
	w.waitRestarted("restarting", "configmap/other", "")
	b := w.editTo("B")
	w.Undo("web")
	w.WaitHeld("web", "web")
	w.WaitEvent("Held", "web", a.String())
	w.unguarded("delete", "configmap", a.Revision)
	w.WaitEvent("RevisionMissing", "web", a.Revision)
	w.unguarded("delete", "configmap", b.Revision)
	w.WaitEvent("RevisionRecreated", "web", b.Revision)
	w.failWithinARequest()
	w.waitGone(orphan().Name)

	sum := func(name string, labels ...string) func(env.Metrics) float64 {
		return func(m env.Metrics) float64 { return m.Sum(name, labels...) }
	}
	grow := map[string]func(env.Metrics) float64{
		"confrev_advances_total":                              sum("confrev_advances_total", "workload", "deployment"),
		"confrev_pinned_total":                                sum("confrev_pinned_total", "workload", "deployment"),
		"confrev_holds_total":                                 sum("confrev_holds_total", "workload", "deployment"),
		"confrev_restarts_total":                              sum("confrev_restarts_total", "workload", "deployment"),
		"confrev_revisions_created_total":                     sum("confrev_revisions_created_total"),
		"confrev_revisions_recreated_total":                   sum("confrev_revisions_recreated_total"),
		"confrev_revisions_deleted_total":                     sum("confrev_revisions_deleted_total"),
		"confrev_owners_attached_total":                       sum("confrev_owners_attached_total"),
		"confrev_plan_duration_seconds":                       sum("confrev_plan_duration_seconds"),
		"confrev_admission_duration_seconds":                  sum("confrev_admission_duration_seconds", "workload", "deployment", "result", "patched"),
		"confrev_change_to_pin_seconds":                       sum("confrev_change_to_pin_seconds"),
		"confrev_admission_duration_seconds, where it failed": sum("confrev_admission_duration_seconds", "workload", "deployment", "result", "error"),
		"confrev_warnings_total": func(m env.Metrics) float64 {
			return min(m.Sum("confrev_warnings_total", "reason", "SourceMissing"), m.Sum("confrev_warnings_total", "reason", "RevisionMissing"))
		},
	}
	// What confrev counts, it counts after it has done it.
	var after env.Metrics
	w.Eventually("all of them grow", func() string {
		after = w.metrics()
		for name, value := range grow {
			if now, was := value(after), value(before); now <= was {
				return fmt.Sprintf("%s went from %v to %v", name, was, now)
			}
		}
		return ""
	})
	if by := after.Sum("confrev_pod_admission", "by", "policy") + after.Sum("confrev_pod_admission", "by", "webhook"); by != 1 {
		t.Errorf("confrev_pod_admission says that %v things resolve pins", by)
	}
	if dropped := after.Sum("confrev_warnings_total", "reason", "EventsDropped"); dropped != 0 {
		t.Errorf("%v events were dropped", dropped)
	}
	for _, name := range metricsOfDocs(t) {
		// TestMetricsAreForThoseWhoMayGetThem and TestNamespaced are about the others.
		others := []string{"confrev_pod_admission", "confrev_workloads", "confrev_watched_namespaces"}
		if grow[name] == nil && !slices.Contains(others, name) {
			t.Errorf("docs/metrics.md has %s, which this test does not move", name)
		}
	}
}

// unreachable is a webhook that does not answer and fails closed, for what confrev creates in a namespace.
const unreachable = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: unreachable-NAMESPACE}
webhooks:
- name: unreachable.e2e.confrev.io
  clientConfig: {url: "https://localhost:1/"}
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
  matchConditions:
  - {name: confrev, expression: "request.userInfo.username == 'system:serviceaccount:confrev-system:confrev'"}
`

// failCreations makes the API server fail what confrev creates in the namespace. It returns what ends that.
func (w *world) failCreations() (end func()) {
	w.Helper()
	webhook := strings.ReplaceAll(unreachable, "NAMESPACE", w.NS)
	end = func() {
		if _, err := cluster.Run(context.Background(), webhook, "kubectl", "delete", "--ignore-not-found", "-f", "-"); err != nil {
			w.Error(err)
		}
	}
	w.Cleanup(end)
	w.KubectlIn(webhook, "apply", "-f", "-")
	try := forged(trueName("unmade", "k", "v"), "unmade", hashOf("k", "v"), nil, "k", "v")
	try.Namespace = w.NS
	w.Eventually("the API server asks the webhook that does not answer", func() string {
		err := stealToken(w.T).Create(w.Ctx, try.DeepCopy(), client.DryRunAll)
		if !strings.Contains(errorText(err), "failed calling webhook") {
			return "it is let through: " + errorText(err)
		}
		return ""
	})
	return end
}

// failWithinARequest makes the API server fail what confrev asks for within someone's request: that is let through as it is, with a
// warning, and is pinned when the failure ends.
func (w *world) failWithinARequest() {
	w.Helper()
	w.Create(configMap("unmade", "k", "v"))
	end := w.failCreations()
	hasty := deployment("hasty", envFrom("unmade"))
	hasty.Namespace = w.NS
	said := &heard{}
	config := rest.CopyConfig(cluster.Config)
	config.WarningHandler = said
	user, err := client.New(config, client.Options{})
	w.Must(err)
	w.Must(user.Create(w.Ctx, hasty))
	if want := "confrev could not pin this workload within the request"; !strings.Contains(said.text, want) {
		w.Errorf("the warning is %q, want one with %q", said.text, want)
	}
	if pins := w.PinsText("hasty"); pins != "" {
		w.Errorf("pinned to %s, which was not made", pins)
	}
	end()
	w.WaitPinned("hasty", "unmade", "k", "v")
}

// heard are the warnings of admission that a client got.
type heard struct{ text string }

// HandleWarningHeader notes one.
func (h *heard) HandleWarningHeader(_ int, _ string, text string) { h.text += text + "\n" }

// metricsOfDocs lists the metrics of the table in docs/metrics.md.
func metricsOfDocs(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(env.Root(), "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, match := range regexp.MustCompile("(?m)^\\| `(confrev_[a-z_]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		names = append(names, match[1])
	}
	if len(names) < 10 || !slices.Contains(names, "confrev_warnings_total") {
		t.Fatalf("docs/metrics.md lists %q: the test reads it wrongly", names)
	}
	return names
}
