//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/test/env"
)

// What may be wrong with an installation, one thing after the other, is found. Not parallel: it breaks the installation of all.
func TestPluginDoctorOfABrokenInstallation(t *testing.T) {
	stop(t)
	w := newWorld(t)
	reinstallAfter(t)
	system := func(args ...string) {
		t.Helper()
		_, err := cluster.Kubectl(w.Ctx, append([]string{"--namespace", env.Namespace}, args...)...)
		w.Must(err)
	}
	// The API server learns of rights that went when it gets to it.
	finds := func(severity, reason, object string) {
		t.Helper()
		w.Eventually("doctor finds "+reason, func() string {
			var d view.Diagnosis
			status := w.pluginJSON(&d, "doctor")
			return lacksFinding(status, d, severity, reason, object)
		})
	}

	system("patch", "mutatingwebhookconfiguration", "confrev-pin-workloads", "--type=json", "-p", `[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`)
	finds("Warning", "NoCABundle", "mutatingwebhookconfiguration/confrev-pin-workloads")
	system("delete", "mutatingwebhookconfiguration", "confrev-pin-workloads")
	finds("Warning", "WebhookMissing", "mutatingwebhookconfiguration/confrev-pin-workloads")
	system("delete", "validatingadmissionpolicy", "confrev-guard-revisions", "confrev-guard-anchors", "confrev-guard-keys")
	finds("Info", "NoGuard", "validatingadmissionpolicy/confrev-guard-revisions")
	finds("Info", "NoGuard", "validatingadmissionpolicy/confrev-guard-keys")
	finds("Info", "NoGuard", "validatingadmissionpolicy/confrev-guard-anchors")

	// A replica of KWOK's is ready, and does nothing.
	system("scale", "deployment/confrev", "--replicas=1")
	w.Must(client.IgnoreNotFound(cluster.Client.Delete(w.Ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "confrev"}})))
	finds("Error", "NoLeader", "lease/confrev")
	system("delete", "clusterrolebinding", "-l", "app.kubernetes.io/name=confrev")
	finds("Error", "RightMissing", "deployment/confrev")
	w.Must(client.IgnoreNotFound(cluster.Client.Delete(w.Ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "confrev"}})))
	finds("Error", "NotInstalled", "deployment/confrev")

	w.Must(reinstall(t))
	start(t)
	w.Must(cluster.WaitWebhook(w.Ctx))
	if complaint := lacksFinding(3, w.doctorOfRelease("v9.9.9"), "Info", "VersionsDiffer", "deployment/confrev"); complaint != "" {
		t.Error(complaint)
	}
}

// lacksFinding complains unless doctor found something, and ended with the status of one that found a fault.
func lacksFinding(status int, d view.Diagnosis, severity, reason, object string) string {
	if f := found(d, reason, object); status != 3 || f == nil || string(f.Severity) != severity {
		return fmt.Sprintf("status %d; want %s %s of %s, have %+v", status, severity, reason, object, d.Findings)
	}
	return ""
}

// doctorOfRelease returns what the plugin of a release finds.
func (w *world) doctorOfRelease(release string) (d view.Diagnosis) {
	w.Helper()
	path := filepath.Join(w.TempDir(), "kubectl-confrev")
	build := exec.CommandContext(w.Ctx, "go", "build", "-ldflags", "-X confrev.io/confrev/internal/version.release="+release, "-o", path, "./cmd/kubectl-confrev")
	build.Dir = env.Root()
	if out, err := build.CombinedOutput(); err != nil {
		w.Fatalf("%v\n%s", err, out)
	}
	got := w.runIn("", "", path, "doctor", "-o", "json")
	if err := json.Unmarshal([]byte(got.stdout), &d); err != nil {
		w.Fatalf("status %d, %v\n%s%s", got.status, err, got.stdout, got.stderr)
	}
	if d.Versions.Plugin != release || d.Versions.Controller == "" {
		w.Errorf("versions %+v", d.Versions)
	}
	return d
}
