//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/test/gen"
)

func TestPluginUses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "color", "A"), configMap("lonely", "k", "v"),
		deployment("web", envFrom("app")),
		deployment("one-key", envKey("app", "color", false)),
		deployment("careful", envFrom("app"), gen.Annotated(keys.Advance, "manual")),
		deployment("restarting", envFrom("app"), gen.Annotated(keys.Mode, "restart")),
		deployment("other", envFrom("app"), gen.Untracked),
		deployment("elsewhere"))
	for _, name := range []string{"web", "one-key", "careful"} {
		w.WaitPinned(name, "app", "color", "A")
	}
	w.Eventually("the others have their pods too", func() string { return w.NotRolledOut("restarting") + w.NotRolledOut("other") })
	got := w.plugin("uses", "configmap/app")
	for workload, want := range map[string]string{
		"deployment/web":        "Rolls <all> 1 -",
		"deployment/one-key":    "Rolls color 1 -",
		"deployment/careful":    "Waits <all> 1 until a person advances it (annotation confrev.io/advance)",
		"deployment/restarting": "Restarts <all> 1 -",
		"deployment/other":      "Stays <all> 1 not tracked: see the annotation confrev.io/track",
	} {
		w.shows(got, 0, []string{"configmap/app", workload}, strings.Fields(want)...)
	}
	if strings.Contains(got.stdout, "elsewhere") {
		t.Errorf("who does not use it:\n%s", got.stdout)
	}

	// A hold ends when the source changes.
	w.Edit("app", "color", "B")
	w.WaitPinned("web", "app", "color", "B")
	w.Undo("web")
	w.WaitHeld("web", "app")
	w.Eventually("while it rolls out, there are more pods", func() string {
		var pods corev1.PodList
		w.List(&pods, client.MatchingLabels{"app": "web"})
		if len(pods.Items) != 1 {
			return fmt.Sprintf("%d pods", len(pods.Items))
		}
		return w.NotRolledOut("web")
	})
	var list view.UseList
	if status := w.pluginJSON(&list, "uses", "cm/app"); status != 0 || len(list.Items) != 5 || list.Kind != "UseList" {
		t.Fatalf("status %d, %+v", status, list)
	}
	for _, item := range list.Items {
		if item.Workload == "deployment/web" && (item.Effect != "Rolls" || !strings.HasPrefix(item.Reason, "held now")) {
			t.Errorf("%+v", item)
		}
	}
	w.Kubectl("annotate", "configmap/app", "confrev.io/policy=ignore")
	w.shows(w.plugin("uses", "configmap/app"), 0, []string{"configmap/app", "deployment/web"},
		strings.Fields("Stays <all> 1 confrev.io/policy: ignore; pods read the source itself")...)
	if got := w.plugin("uses", "configmap/lonely"); got.status != 0 || got.stdout != "" || !strings.Contains(got.stderr, "No workload") {
		t.Errorf("%+v", got)
	}
	if offered := w.completes([]string{"configmap/lonely\n"}, "uses", "configmap/"); strings.Contains(offered, "configmap/app-") {
		t.Errorf("completion offers %s", offered)
	}
	for _, line := range examplesOf(t, "uses") {
		w.runExample(t.TempDir(), line)
	}
}

func TestPluginUsesRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "color", "A"), deployment("web", envFrom("app")))
	w.WaitPinned("web", "app", "color", "A")
	w.pluginFails(1, "no object given", "uses")
	w.pluginFails(1, `configmaps "nothing" not found`, "uses", "configmap/nothing")
	w.pluginFails(1, "deployments.apps/web is not a source", "uses", "deployment/web")
	w.pluginFails(1, "cannot reach the API server", "uses", "configmap/app", w.unreachable())
	w.pluginFails(1, "cannot list resource", "uses", "configmap/app", w.account("nothing"))
	some := w.account("some", rights("apps", []string{"deployments"}, "list"), rights("", []string{"configmaps"}, "list"))
	w.shows(w.plugin("uses", "configmap/app", some), 0, []string{"configmap/app", "deployment/web"}, "Rolls", "<all>", "-", "-")
}
