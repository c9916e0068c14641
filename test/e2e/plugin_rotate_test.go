//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/test/gen"
)

// What people see of the policy rotate.
func TestPluginShowsWhatRotates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(certificate("cert", "A"), deployment("web", secretVolume("cert")), deployment("other", gen.Untracked, secretVolume("cert")))
	w.waitFollowed("web", "secret/cert")
	w.Eventually("they are rolled out", func() string { return w.NotRolledOut("web") + w.NotRolledOut("other") })
	restarts := strings.Fields("Restarts <all> 1 rotates: pods read it live, and no undo brings old content back")
	// The plugin has the classes from the chart's Deployment.
	external := secret("external", corev1.SecretTypeOpaque, "password", "A")
	external.Labels = map[string]string{"reconcile.external-secrets.io/managed": "true"}
	w.Create(external, deployment("external", secretVolume("external")))
	w.waitFollowed("external", "secret/external")
	w.Eventually("it is rolled out", func() string { return w.NotRolledOut("external") })
	w.shows(w.plugin("uses", "secret/external"), 0, []string{"secret/external", "deployment/external"}, restarts...)

	got := w.plugin("uses", "secret/cert")
	w.shows(got, 0, []string{"secret/cert", "deployment/web"}, restarts...)
	w.shows(got, 0, []string{"secret/cert", "deployment/other"}, strings.Fields("Stays <all> 1 not tracked: see the annotation confrev.io/track")...)

	var list view.StatusList
	if status := w.pluginJSON(&list, "status", "deployment/web"); status != 0 || len(list.Items) != 1 || len(list.Items[0].Sources) != 1 ||
		list.Items[0].Sources[0].Policy != "rotate" || list.Items[0].Sources[0].State != "RolledOut" {
		t.Errorf("status %d, %+v", status, list)
	}
	if got := w.pluginPrints("status", "deployment/web", "-o", "wide"); !strings.Contains(got, "rotates: pods read it live") {
		t.Errorf("status -o wide:\n%s", got)
	}
	w.pluginFails(1, "secret/cert rotates, so pods read it live", "undo", "deployment/web")

	renewed := certificate("cert", "B")
	renewed.APIVersion, renewed.Kind = "v1", "Secret"
	text, err := json.Marshal(renewed)
	w.Must(err)
	preview := w.runIn("", string(text), "kubectl", "confrev", "preview", "--server-side", "--force-conflicts", "-f", "-")
	if line := strings.Join(preview.rowOf(w.NS, "deployment/web"), " "); preview.status != 0 || !strings.Contains(line, "yes") || !strings.Contains(line, "secret/cert: revision 1 -> 2") {
		t.Errorf("preview: status %d\n%s%s", preview.status, preview.stdout, preview.stderr)
	}

	// Where its rotation waits, a person can let it continue.
	w.Kubectl("annotate", "deployment/web", keys.Advance+"=manual")
	w.rotate("cert", "C")
	w.WaitEvent("WaitingToAdvance", "web", "secret/cert")
	w.pluginPrints("advance", "deployment/web")
	w.waitRotated("web", "cert", "")
	if got := w.plugin("doctor"); strings.Contains(got.stdout, "secret/cert") {
		t.Errorf("doctor:\n%s", got.stdout)
	}
}
