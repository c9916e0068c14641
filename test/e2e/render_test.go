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

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/corpus"
	"confrev.io/confrev/test/env"
)

// withPlugin runs a tool that finds kubectl-confrev in its PATH, as kubectl, Helm and kustomize do, and returns what it printed.
func withPlugin(t *testing.T, input, tool string, args ...string) (string, error) {
	t.Helper()
	tools, err := buildPlugin()
	if err != nil {
		return "", err
	}
	return cluster.RunEnv(t.Context(), []string{"PATH=" + tools + string(os.PathListSeparator) + os.Getenv("PATH")}, input, tool, args...)
}

// render runs `kubectl confrev render` on manifests.
func (w *world) render(manifests string, args ...string) string {
	w.Helper()
	out, err := withPlugin(w.T, manifests, "kubectl", append([]string{"confrev", "render"}, args...)...)
	w.Must(err)
	return out
}

// colors returns the manifests of web with a ConfigMap of the given color.
func colors(color string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: app}
data: {color: %s}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  revisionHistoryLimit: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: app, image: "app:1", envFrom: [{configMapRef: {name: app}}]}]
`, color)
}

// named returns the ConfigMap that the template of web names.
func (w *world) named(deployment string) string {
	w.Helper()
	return w.Deployment(deployment).Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name
}

// rolledOut waits until a Deployment is rolled out with a ConfigMap of the given color, and returns its name.
func (w *world) rolledOut(deployment, color string) string {
	w.Helper()
	w.Eventually(deployment+" rolled out with "+color, func() string { return w.NotRolledOut(deployment) })
	name := w.named(deployment)
	cm := &corev1.ConfigMap{}
	w.Must(w.Get(name, cm))
	if cm.Data["color"] != color || cm.Immutable == nil || !*cm.Immutable {
		w.Fatalf("%s names %s: %+v", deployment, name, cm)
	}
	return name
}

func (w *world) wantReplicaSets(deployment string, want int) {
	w.Helper()
	if got := len(w.ReplicaSets(deployment)); got != want {
		w.Errorf("%s has %d ReplicaSets, want %d", deployment, got, want)
	}
}

// A rendered deploy is one rollout; old ReplicaSets keep the old content; undo brings it back; and with the controller a
// copy goes with the last ReplicaSet that uses it. The names are those that the controller gives.
func TestRenderedManifestsRollOutAndBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	deploy := func(color string) string {
		w.KubectlIn(w.render(colors(color)), "apply", "-f", "-")
		return w.rolledOut("web", color)
	}
	a := deploy("A")
	w.waitOwners(a)
	w.wantReplicaSets("web", 1)
	b := deploy("B")
	w.waitOwners(b)
	w.waitOwners(a)
	w.wantReplicaSets("web", 2)
	deploy("B")
	w.Undo("web")
	if got := w.rolledOut("web", "A"); got != a {
		t.Errorf("undo leads to %s, want %s", got, a)
	}
	c := deploy("C")
	w.waitGone(b)
	w.waitOwners(a)
	w.waitOwners(c)
	// What the controller makes of the same content.
	other := newWorld(t)
	other.Create(configMap("app", "color", "A"), deployment("web", envFrom("app")))
	if pinned := other.WaitPinned("web", "app", "color", "A"); pinned.Revision != a {
		t.Errorf("the controller names %s what was rendered as %s", pinned.Revision, a)
	}
	w.Kubectl("delete", "deployment", "web")
	w.waitGone(a)
	w.waitGone(c)
	if w.Gone("app") {
		t.Error("the source went")
	}
}

// A copy has the name of the revision with the same content, which the guard keeps as it is. Along with a change, rendering can begin.
func TestFromModeRevisionToRendering(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.KubectlIn(colors("A"), "apply", "-f", "-")
	w.Kubectl("annotate", "deployment/web", keys.Track+"=all")
	a := w.WaitPinned("web", "app", "color", "A")
	w.WaitOwned(a.Revision, "web")
	_, err := cluster.Run(w.Ctx, w.render(colors("A")), "kubectl", "--namespace", w.NS, "apply", "-f", "-")
	if err == nil || !strings.Contains(err.Error(), a.Revision) || !strings.Contains(err.Error(), "revision") {
		t.Errorf("a copy of a revision in use: %v", err)
	}
	w.KubectlIn(w.render(colors("B")), "apply", "-f", "-")
	b := w.rolledOut("web", "B")
	w.waitOwners(b)
	w.podsRead(b)
}

// What is exported from the cluster can be rendered and applied: lists, in JSON, with all that the API server adds.
func TestRenderTakesWhatWasExported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.KubectlIn(colors("A"), "apply", "-f", "-")
	// What is exported carries its resourceVersion: until it is rolled out, the next status makes applying it a conflict.
	w.Eventually("rolled out", func() string { return w.NotRolledOut("web") })
	for _, form := range []string{"json", "yaml"} {
		rendered := w.render(w.Kubectl("get", "configmap/app", "deployment/web", "-o", form))
		for _, how := range []string{"--server-side=false", "--server-side=true"} {
			out := w.KubectlIn(rendered, "apply", "--dry-run=server", how, "--force-conflicts="+strings.TrimPrefix(how, "--server-side="), "-f", "-")
			if strings.Count(out, "configmap/app-") != 1 || strings.Count(out, "\n") != 3 {
				t.Errorf("from %s with %s:\n%s", form, how, out)
			}
		}
	}
}

// With --mode checksum a change is one rollout, and nothing else is made.
func TestRenderedChecksumsRollOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, color := range []string{"A", "B"} {
		for range 2 {
			w.KubectlIn(w.render(colors(color), "--mode", "checksum"), "apply", "-f", "-")
			w.Eventually("rolled out", func() string { return w.NotRolledOut("web") })
			w.wantReplicaSets("web", i+1)
		}
	}
	if name := w.named("web"); name != "app" {
		t.Errorf("it names %s", name)
	}
}

// The post-renderer of Helm 4 and of Helm 3: an upgrade is one rollout and deletes no copy that an old ReplicaSet needs, a
// rollback brings the old one back, and the controller deletes those that no ReplicaSet needs.
func TestRenderAsHelmPostRenderer(t *testing.T) {
	t.Parallel()
	tools, err := buildPlugin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Run(t.Context(), "", "helm", "plugin", "install", filepath.Join(env.Root(), "deploy", "helm-plugin")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's own context has ended.
		if _, err := cluster.Run(context.Background(), "", "helm", "plugin", "uninstall", "confrev"); err != nil {
			t.Error(err)
		}
	})
	tests := map[string]struct {
		tool string
		args func(w *world) []string
	}{
		"Helm 4": {"helm", func(w *world) []string {
			return []string{"--post-renderer", "confrev", "--post-renderer-args", "--namespace=" + w.NS}
		}},
		"Helm 3": {"helm3", func(w *world) []string {
			return []string{"--post-renderer", filepath.Join(tools, "kubectl-confrev"), "--post-renderer-args", "render",
				"--post-renderer-args", "--keep-for=helm", "--post-renderer-args", "--namespace=" + w.NS}
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			helmStory(newWorld(t), tt.tool, tt.args)
		})
	}
}

func helmStory(w *world, tool string, postRenderer func(*world) []string) {
	helm := func(args ...string) {
		w.Helper()
		_, err := withPlugin(w.T, "", tool, append(args, "--namespace", w.NS)...)
		w.Must(err)
	}
	upgrade := func(color string) string {
		w.Helper()
		helm(slices.Concat([]string{"upgrade", "--install", "web", filepath.Join(env.Root(), "test", "e2e", "testdata", "render", "chart"),
			"--set", "color=" + color}, postRenderer(w))...)
		return w.rolledOut("web", color)
	}
	a := upgrade("A")
	w.wantReplicaSets("web", 1)
	w.waitOwners(a)
	b := upgrade("B")
	w.wantReplicaSets("web", 2)
	if w.Gone(a) {
		w.Fatal("the upgrade deleted what the old ReplicaSet needs")
	}
	helm("rollback", "web", "1")
	if got := w.rolledOut("web", "A"); got != a || w.Gone(b) {
		w.Errorf("the rollback leads to %s, want %s; %s is gone: %t", got, a, b, w.Gone(b))
	}
	w.wantReplicaSets("web", 2)
	c := upgrade("C")
	w.waitGone(b)
	w.waitOwners(a)
	if secret := w.Deployment("web").Spec.Template.Spec.Containers[0].EnvFrom[1].SecretRef.Name; secret == "web" {
		w.Error("the Secret, which names no namespace, was not rendered")
	}
	helm("uninstall", "web")
	w.waitGone(a)
	w.waitGone(c)
}

// As a function of kustomize: an executable, and a container. kubectl's kustomize runs containers only.
func TestRenderAsKustomizeFunction(t *testing.T) {
	t.Parallel()
	data := filepath.Join(env.Root(), "test", "e2e", "testdata", "render", "kustomize")
	tests := map[string]struct {
		function string
		build    func(dir string) (string, error)
	}{
		"an executable": {"exec: {path: ./render.sh}", func(dir string) (string, error) {
			return withPlugin(t, "", "kustomize", "build", "--enable-alpha-plugins", "--enable-exec", dir)
		}},
		"a container": {"container: {image: example.com/confrev-render:v1}", func(dir string) (string, error) {
			engine, tools := containerEngine(t)
			return cluster.RunEnv(t.Context(), []string{"PATH=" + engine + ":/usr/bin:/bin", "TOOLS=" + tools}, "", "kubectl", "kustomize", "--enable-alpha-plugins", dir)
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(data)); err != nil {
				t.Fatal(err)
			}
			config := strings.Replace(readFile(t, filepath.Join(data, "render.yaml")), "exec: {path: ./render.sh}", tt.function, 1)
			if err := os.WriteFile(filepath.Join(dir, "render.yaml"), []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := tt.build(dir)
			if err != nil {
				t.Fatal(err)
			}
			wantKustomized(t, out)
			// A mistake is told in one line, which is the function's own.
			if err := os.WriteFile(filepath.Join(dir, "render.yaml"), []byte(strings.Replace(config, "flux", "fluxx", 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := tt.build(dir); err == nil || out != "" || !strings.Contains(err.Error(), `functionConfig: "fluxx" is not a tool that confrev knows`) {
				t.Errorf("got %q, %v", out, err)
			}
		})
	}
}

// containerEngine makes a stand-in for docker: it looks at how it is run, and runs what our image runs with
// what a container has, which is no environment, no network and no kubeconfig. It gives its directory, and the tools'.
func containerEngine(t *testing.T) (dir, tools string) {
	t.Helper()
	tools, err := buildPlugin()
	if err != nil {
		t.Fatal(err)
	}
	args := regexp.MustCompile(`program: "kubectl-confrev",.* args: \[\]string\{"(\w+)"\}`).FindStringSubmatch(readFile(t, filepath.Join(env.Root(), "hack", "release", "images.go")))
	if args == nil {
		t.Fatal("the image runs the plugin with other arguments")
	}
	dir = t.TempDir()
	script := fmt.Sprintf(`#!/bin/sh
case "$*" in
"run --rm -i -a STDIN -a STDOUT -a STDERR --network none --user nobody "*" example.com/confrev-render:v1") ;;
*) echo "docker $*" >&2; exit 1 ;;
esac
cd / && exec env -i "$TOOLS/kubectl-confrev" %s
`, args[1])
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(script), 0o700); err != nil { //nolint:gosec // It is to be run.
		t.Fatal(err)
	}
	return dir, tools
}

// wantKustomized checks the manifests that the kustomization makes.
func wantKustomized(t *testing.T, out string) {
	t.Helper()
	objects, err := corpus.Objects([]byte(out))
	if err != nil || len(objects) != 3 {
		t.Fatalf("%d objects, %v:\n%s", len(objects), err, out)
	}
	copied, deployment := &corev1.ConfigMap{}, &appsv1.Deployment{}
	for _, object := range objects {
		u := &unstructured.Unstructured{Object: object}
		if u.GetNamespace() != "prod" {
			t.Errorf("%s is in namespace %q", u.GetName(), u.GetNamespace())
		}
		switch {
		case u.GetKind() == "Deployment":
			convert(t, object, deployment)
		case u.GetName() != "app":
			convert(t, object, copied)
		}
	}
	named := deployment.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name
	if named != copied.Name || copied.Annotations["kustomize.toolkit.fluxcd.io/prune"] != "disabled" || copied.Data["color"] != "A" {
		t.Errorf("the Deployment names %s; the copy is %+v\n%s", named, copied, out)
	}
}
