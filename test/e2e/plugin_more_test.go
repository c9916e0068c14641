//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// What a verb writes it prints, as the object that it then is.
func TestPluginPrintsWhatItWroteAsJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.threeRevisions()
	prints := func(args ...string) (d appsv1.Deployment) {
		t.Helper()
		out := w.confrev(append(args, "-o", "json")...).says().stdout
		if err := json.Unmarshal([]byte(out), &d); err != nil || d.Kind != "Deployment" || d.APIVersion != "apps/v1" || d.Name != "web" || d.Namespace != w.NS {
			t.Fatalf("%v prints %v:\n%s", args, err, out)
		}
		if d.ResourceVersion == "" {
			t.Errorf("%v prints no object of the API server's", args)
		}
		return d
	}
	pinnedTo := func(d appsv1.Deployment, number string) {
		t.Helper()
		if pins := d.Spec.Template.Annotations[keys.Pins]; !strings.HasSuffix(pins, "@"+number) {
			t.Errorf("it prints the pins %q, want @%s", pins, number)
		}
	}
	pinnedTo(prints("undo", "deployment/web"), "2")
	w.WaitHeld("web", "app")
	pinnedTo(prints("resume", "deployment/web"), "3")
	w.WaitPinned("web", "app", "v", "3")
	w.Eventually("the hold ends", func() string { return w.Deployment("web").Annotations[keys.Held] })
	w.Kubectl("annotate", "deployment/web", keys.Advance+"=manual")
	w.Edit("app", "v", "4")
	w.WaitEvent("WaitingToAdvance", "web", "configmap/app")
	pinnedTo(prints("advance", "deployment/web"), "4")
	w.WaitPinned("web", "app", "v", "4")
	if got := prints("untrack", "deployment/web").Annotations[keys.Track]; got != "none" {
		t.Errorf("untracked, it prints track %q", got)
	}
	if got := prints("track", "deployment/web", "configmap/app").Annotations[keys.Track]; got != "configmap/app" {
		t.Errorf("tracked, it prints track %q", got)
	}
}

// A verb that lacks a right says which.
func TestPluginTrackAndCreateWithoutTheRight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "v", "1"), deployment("web", gen.Untracked, envFrom("app")))
	reader := w.account("reader", rights("apps", []string{"deployments"}, "get"), rights("", []string{"configmaps"}, "get"))
	w.confrev("track", "deployment/web", "configmap/app", reader).fails(1, "forbidden", "cannot patch")
	w.confrev("create", "configmap", "new", "--from-literal=k=v", reader).fails(1, "forbidden", "cannot create")
	w.confrev("create", "configmap", "new", "--from-literal=k=v", "--owner=deployment/web", w.account("stranger")).fails(1, "forbidden", "deployments")
	if !w.Gone("new") || w.Deployment("web").Annotations[keys.Track] != "" {
		t.Error("it was done nevertheless")
	}
}

func TestPluginSetVolumeOfAClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "v", "1"), deployment("web", envFrom("app"), gen.Replicas(0)))
	first := w.WaitPinned("web", "app", "v", "1")
	w.confrev("set", "volume", "deployment/web", "-t", "pvc", "--mount-path=/data").fails(1, "needs --claim-name")
	w.confrev("set", "volume", "deployment/web", "-t", "pvc", "--claim-name=data", "--name=store", "--mount-path=/data").says("deployment.apps/web volumes updated")
	spec := w.Deployment("web").Spec.Template.Spec
	if len(spec.Volumes) != 1 || spec.Volumes[0].Name != "store" || spec.Volumes[0].PersistentVolumeClaim == nil ||
		spec.Volumes[0].PersistentVolumeClaim.ClaimName != "data" || len(spec.Containers[0].VolumeMounts) != 1 || spec.Containers[0].VolumeMounts[0].MountPath != "/data" {
		t.Errorf("it has %+v and %+v", spec.Volumes, spec.Containers[0].VolumeMounts)
	}
	w.confrev("set", "volume", "deployment/web").says("pvc/data as store\n", "mounted at /data in app\n")
	w.confrev("set", "volume", "deployment/web", "--remove", "--name=store").says("updated")
	if left := w.Deployment("web").Spec.Template.Spec.Volumes; len(left) != 0 || w.PinOf("web", "app") != first {
		t.Errorf("left are %v, and the pin %s", left, w.PinOf("web", "app"))
	}
}

func TestPluginCreateFromAnEnvFileAndWithAHash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	w.writeFile(dir, "app.env", "# a comment\nLEVEL=info\nCOLOR=blue=green\n")
	create := func(args ...string) string {
		t.Helper()
		got := w.runIn(dir, "", append([]string{"kubectl", "confrev", "create"}, args...)...)
		if got.status != 0 {
			t.Fatalf("%v: status %d\n%s%s", args, got.status, got.stdout, got.stderr)
		}
		return strings.TrimSpace(got.stdout)
	}
	create("configmap", "app", "--from-env-file=app.env")
	create("secret", "generic", "app", "--from-env-file=app.env")
	cm, secret := &corev1.ConfigMap{}, &corev1.Secret{}
	w.Must(w.Get("app", cm))
	w.Must(w.Get("app", secret))
	if len(cm.Data) != 2 || cm.Data["LEVEL"] != "info" || cm.Data["COLOR"] != "blue=green" || string(secret.Data["COLOR"]) != "blue=green" || len(secret.Data) != 2 {
		t.Errorf("they have %v and %v", cm.Data, secret.Data)
	}
	for _, kind := range [][]string{{"configmap"}, {"secret", "generic"}} {
		// The name is kubectl's own for the same.
		of := append(append([]string{}, kind...), "hashed", "--from-env-file=app.env", "--append-hash")
		want := w.runIn(dir, "", append([]string{"kubectl", "create", "--dry-run=client", "-o", "name"}, of...)...)
		if got := create(append(of, "-o", "name")...); got != strings.TrimSpace(want.stdout) || !strings.Contains(got, "/hashed-") {
			t.Errorf("it creates %s, kubectl %s%s", got, want.stdout, want.stderr)
		}
	}
	got := w.runIn(dir, "", "kubectl", "confrev", "create", "configmap", "both", "--from-env-file=app.env", "--from-literal=k=v")
	if got.status != 1 || !strings.Contains(got.stderr, "from-env-file cannot be combined") {
		t.Errorf("%+v", got)
	}
}

// Where no chart was ever installed, each verb says so or does what it can, and none crashes.
func TestPluginWhereNothingIsInstalled(t *testing.T) {
	t.Parallel()
	var flags []string
	if version := os.Getenv("CONFREV_KUBERNETES"); version != "" {
		flags = append(flags, env.Kubernetes(version))
	}
	name := cluster.Name + "-bare"
	bare, err := env.Up(t.Context(), name, os.Stderr, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Down(context.Background(), name, os.Stderr); err != nil {
			t.Error(err)
		}
	})
	// In its default namespace. What the world itself does is done elsewhere.
	w := newWorld(t)
	on := "--kubeconfig=" + bare.Kubeconfig
	objects := []string{"configmap", "deployment"}
	for i, obj := range []any{configMap("app", "v", "1"), deployment("web", envFrom("app"))} {
		text, err := json.Marshal(obj)
		w.Must(err)
		text = append([]byte(map[string]string{"configmap": `{"apiVersion":"v1","kind":"ConfigMap",`, "deployment": `{"apiVersion":"apps/v1","kind":"Deployment",`}[objects[i]]), text[1:]...)
		_, err = bare.Run(w.Ctx, string(text), "kubectl", "apply", "-f", "-")
		w.Must(err)
	}
	_, err = bare.Kubectl(w.Ctx, "wait", "deployment/web", "--for=jsonpath={.status.replicas}=1", "--timeout="+patience.String())
	w.Must(err)

	var d view.Diagnosis
	w.pluginJSON(&d, "doctor", on)
	for _, object := range []string{"deployment/confrev", "mutatingwebhookconfiguration/confrev-pin-workloads"} {
		reason := map[bool]string{true: "NotInstalled", false: "WebhookMissing"}[strings.HasPrefix(object, "deployment/")]
		if complaint := lacksFinding(3, d, map[string]string{"NotInstalled": "Error", "WebhookMissing": "Warning"}[reason], reason, object); complaint != "" {
			t.Error(complaint)
		}
	}
	for _, tt := range []struct {
		line   string
		status int
		says   string
	}{
		{"status", 3, "1@live"},
		{"status deployment/web", 3, "1@live"},
		{"history configmap/app", 0, "No revisions found"},
		{"history deployment/web", 0, "No revisions found"},
		{"uses configmap/app", 0, "deployment/web"},
		{"diff deployment/web", 2, "error: deployment/web has no pins"},
		{"diff configmap/app", 2, "error: configmap/app has no revisions"},
		{"undo deployment/web", 1, "error: deployment/web has no pins to roll back"},
		{"resume deployment/web", 0, "unchanged"},
		{"advance deployment/web", 1, "nothing was done. Install the chart"},
		{"track deployment/web configmap/app", 0, "unchanged"},
		{"untrack deployment/web", 0, "all -> none"},
		{"version", 0, "\n"},
	} {
		got := w.plugin(append(strings.Fields(tt.line), on)...)
		if got.status != tt.status || !strings.Contains(got.stdout+got.stderr, tt.says) || got.status != 0 && got.status != 3 && strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%s: status %d, want %d and %q\n%s%s", tt.line, got.status, tt.status, tt.says, got.stdout, got.stderr)
		}
	}
	live := &appsv1.Deployment{}
	w.Must(bare.Client.Get(w.Ctx, types.NamespacedName{Namespace: "default", Name: "web"}, live))
	if len(live.Spec.Template.Annotations) > 0 {
		t.Errorf("the template was changed, though nothing resolves pins: %v", live.Spec.Template.Annotations)
	}
}

// The API server prefers another version of a configured kind than the one that confrev is configured with: the plugin knows its
// objects nevertheless, by either name.
func TestPluginKnowsAKindInItsConfiguredVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app := objectOf(prunedApp, "app", map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
		"name": "app", "image": "app:1", "envFrom": []any{map[string]any{"configMapRef": map[string]any{"name": "conf"}}}}}}}})
	w.Create(configMap("conf", "k", "v"), app)
	if preferred := w.Kubectl("get", "prunedapp", "app", "-o", "jsonpath={.apiVersion}"); preferred != "e2e.confrev.io/v2" {
		t.Fatalf("kubectl reads it as %s: this test shows nothing", preferred)
	}
	for _, name := range []string{"prunedapp/app", "prunedapps.v1.e2e.confrev.io/app"} {
		for _, verb := range []string{"track", "status", "history"} {
			// Nothing of this kind is ever pinned, so its revision goes: there may be no history.
			prints := verb != "history"
			if got := w.plugin(verb, name); got.status == 1 || strings.Contains(got.stderr, "is not a workload") || prints && got.stdout == "" {
				t.Errorf("%s %s: %+v", verb, name, got)
			}
		}
	}
	w.Must(w.Get("app", app))
	if got := app.GetAnnotations()[keys.Track]; got != "all" {
		t.Errorf("track wrote %q", got)
	}
}
