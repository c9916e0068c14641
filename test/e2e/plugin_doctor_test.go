//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/test/gen"
)

// found returns the finding of a reason about an object.
func found(d view.Diagnosis, reason, object string) *view.Finding {
	i := slices.IndexFunc(d.Findings, func(f view.Finding) bool { return f.Reason == reason && f.Object == object })
	if i < 0 {
		return nil
	}
	return &d.Findings[i]
}

func TestPluginDoctor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "color", "A"), deployment("web", envFrom("app")), deployment("lost", envFrom("nothing")),
		deployment("torn", envFrom("app"), gen.Annotated(keys.Settle, "soon")))
	w.WaitPinned("web", "app", "color", "A")
	w.Edit("app", "color", "B")
	w.WaitPinned("web", "app", "color", "B")
	w.Undo("web")
	w.WaitHeld("web", "app")
	// As if there had been no policies when it was made: nothing pins it, so nothing refuses it; then it says that it is pinned,
	// by the only way that is open to those who run pods.
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "stray"}, Spec: deployment("stray", envFrom("app")).Spec.Template.Spec}
	w.Create(pod)
	w.Kubectl("patch", "pod/stray", "--subresource=status", "--type=merge", "-p",
		`{"metadata":{"annotations":{"confrev.io/pins":"configmap/app=app-bbbbbbbbbb@1"}}}`)

	var d view.Diagnosis
	if status := w.pluginJSON(&d, "doctor", "--long=1ns"); status != 3 || d.Kind != "Diagnosis" || d.Versions.Server == "" || len(d.Notes) > 0 {
		t.Fatalf("status %d, %+v", status, d)
	}
	for object, reasons := range map[string][]string{
		"deployment/web":  {"Held"},
		"deployment/lost": {"SourceMissing", "Paused"},
		"deployment/torn": {"InvalidSettle"},
		"pod/stray":       {"NotResolved"},
		// Tests run it outside of the cluster.
		"deployment/confrev": {"NotReady"},
	} {
		for _, reason := range reasons {
			if f := found(d, reason, object); f == nil || f.Fix == "" || f.Severity == "Info" {
				t.Errorf("%s of %s: %+v in %+v", reason, object, f, d.Findings)
			}
		}
	}
	for _, f := range d.Findings {
		if slices.Contains([]string{"PolicyMissing", "WebhookMissing", "NoCABundle", "RightMissing", "Leak", "RevisionMissing"}, f.Reason) {
			t.Errorf("%+v", f)
		}
	}
	if got := w.plugin("doctor"); got.status != 3 || !strings.Contains(got.stdout, "Warning: deployment/lost in "+w.NS) || !strings.Contains(got.stdout, "  fix: ") {
		t.Errorf("%+v", got)
	}
	held := found(d, "Held", "deployment/web")
	if held != nil && (!strings.Contains(held.Message, "configmap/app") || !strings.HasSuffix(held.Fix, "kubectl confrev resume deployment/web -n "+w.NS)) {
		t.Errorf("%+v", held)
	}
	for _, line := range examplesOf(t, "doctor") {
		w.runExample(t.TempDir(), line, 3)
	}
}

// What the user may not see is said.
func TestPluginDoctorRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "color", "A"), deployment("web", envFrom("app")))
	w.WaitPinned("web", "app", "color", "A")
	w.pluginFails(1, `unknown command "web"`, "doctor", "web")
	w.pluginFails(1, "invalid argument", "doctor", "--long=ages")
	w.pluginFails(1, "cannot reach the API server", "doctor", w.unreachable())
	w.pluginFails(1, "cannot list resource", "doctor", w.account("nothing"))
	some := w.account("some", rights("apps", []string{"deployments"}, "list"), rights("", []string{"configmaps"}, "list"))
	got := w.plugin("doctor", some)
	if got.status != 0 || !strings.Contains(got.stdout, "Nothing is wrong, as far as you may see.") {
		t.Errorf("%+v", got)
	}
	for _, what := range []string{"mutatingwebhookconfigurations", "pods", "secrets", "deployments.apps is forbidden"} {
		if !strings.Contains(got.stderr, what) {
			t.Errorf("no note of %s: %s", what, got.stderr)
		}
	}
}

// A revision that is unused and that confrev leaves alone, since it is owned by something else.
func TestPluginDoctorFindsALeak(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keeper, leak := configMap("keeper", "k", "v"), orphan()
	w.Create(keeper)
	leak.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: keeper.Name, UID: keeper.UID}}
	w.Create(leak)
	due := leak.CreationTimestamp.Add(2 * grace)
	w.Within(2*grace+patience, "doctor finds the leak", func() string {
		if time.Now().Before(due) {
			return "it is young still"
		}
		var d view.Diagnosis
		w.pluginJSON(&d, "doctor")
		f := found(d, "Leak", "configmap/"+leak.Name)
		if f == nil {
			return fmt.Sprintf("%+v", d.Findings)
		}
		if f.Severity != "Warning" || !strings.Contains(f.Message, "pinned to this revision of configmap/orphan") || !strings.Contains(f.Fix, "configmap "+leak.Name) {
			t.Errorf("%+v", f)
		}
		return ""
	})
}

// A revision that is pinned and gone is an error.
func TestPluginDoctorOfLostRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "color", "A"), deployment("web", envFrom("app"), gen.Annotated(keys.Track, "none")))
	w.Kubectl("patch", "deployment/web", "--type=merge", "-p",
		`{"spec":{"replicas":0,"template":{"metadata":{"annotations":{"confrev.io/pins":"configmap/app=app-bbbbbbbbbb@1"}}}}}`)
	var d view.Diagnosis
	w.pluginJSON(&d, "doctor")
	if f := found(d, "RevisionMissing", "deployment/web"); f == nil || f.Severity != "Error" || !strings.Contains(f.Message, "app-bbbbbbbbbb@1") {
		t.Errorf("%+v", d.Findings)
	}
}

// What someone wrote into an annotation is printed, and obeyed by no terminal.
func TestPluginPrintsNoEscapes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const escapes, shown = "\x1b[2J\x1b]0;gone\a\u202e", `\x1b[2J\x1b]0;gone\a\u202e`
	app := configMap("app", "color", "A")
	app.Annotations = map[string]string{keys.ChangeCause: "because " + escapes}
	w.Create(app, deployment("web", envFrom("app")), deployment("torn", envFrom("app"), gen.Annotated(keys.Settle, "soon"+escapes)),
		deployment("odd", envFrom("app"), gen.Annotated(keys.RestartOn, "no"+escapes)))
	w.WaitPinned("web", "app", "color", "A")
	w.WaitEvent("InvalidSettle", "torn", "")
	for command, must := range map[string]string{
		"doctor": "soon" + shown, "history configmap/app": "because ", "status": "", "uses configmap/app": "", "diff configmap/app": "",
	} {
		got := w.plugin(strings.Fields(command)...)
		if strings.ContainsAny(got.stdout+got.stderr, "\x1b\a\u202e") {
			t.Errorf("%s prints what a terminal obeys: %q", command, got.stdout+got.stderr)
		}
		if !strings.Contains(got.stdout, must) {
			t.Errorf("%s does not say %q: %s", command, must, got.stdout)
		}
	}
}
