package plugin

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/test/gen"
)

func TestAnErrorIsOneLine(t *testing.T) {
	if text := explain(errors.New(gen.Hostile)); !gen.Harmless(printer.Escaped(text)) {
		t.Errorf("it says %q", text)
	}
}

// It needs no cluster: the whole plugin, with a kubeconfig that leads to nothing, or is none.
func TestRenderNeedsNoCluster(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("bad.yaml", []byte("a: b\nc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	manifests := `{apiVersion: v1, kind: ConfigMap, metadata: {name: app}, data: {color: blue}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {template: {spec: {containers: [{name: web, envFrom: [{configMapRef: {name: app}}]}]}}}}
`
	for name, kubeconfig := range map[string]string{
		"no kubeconfig": "nowhere", "one that cannot be read": "bad.yaml", "a cluster that does not answer": "stopped.yaml",
	} {
		t.Run(name, func(t *testing.T) {
			stopped := `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}], clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]}`
			if err := os.WriteFile("stopped.yaml", []byte(stopped), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("KUBECONFIG", kubeconfig)
			run := func(in string, args ...string) (status int, out, errOut string) {
				var stdout, stderr bytes.Buffer
				status = Run(t.Context(), genericiooptions.IOStreams{In: strings.NewReader(in), Out: &stdout, ErrOut: &stderr}, append([]string{"render"}, args...))
				return status, stdout.String(), stderr.String()
			}
			if status, out, errOut := run(manifests); status != 0 || !strings.Contains(out, "app-5kmc2ft4ds") || errOut != "" {
				t.Errorf("%d, %q, %q", status, out, errOut)
			}
			if status, out, errOut := run("", "-f", "nowhere.yaml"); status != 1 || out != "" || errOut != "error: lstat nowhere.yaml: no such file or directory\n" {
				t.Errorf("a missing file: %d, %q, %q", status, out, errOut)
			}
		})
	}
}

func TestCompletionOfConnectionFlags(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answers := map[string]string{
			"/api":               `{"kind":"APIVersions","versions":["v1"]}`,
			"/apis":              `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
			"/api/v1":            `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"namespaces","singularName":"namespace","kind":"Namespace","verbs":["list"]}]}`,
			"/api/v1/namespaces": `{"kind":"NamespaceList","apiVersion":"v1","items":[{"metadata":{"name":"shop"}},{"metadata":{"name":"staging"}}]}`,
		}
		_, _ = w.Write([]byte(answers[r.URL.Path]))
	}))
	defer api.Close()
	t.Chdir(t.TempDir())
	config := `{apiVersion: v1, kind: Config, current-context: prod, contexts: [{name: prod, context: {cluster: blue, user: ann}}, {name: test, context: {}}],
  clusters: [{name: blue, cluster: {server: "` + api.URL + `"}}], users: [{name: ann, user: {}}]}`
	if err := os.WriteFile("config", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", "config")
	t.Setenv("HOME", t.TempDir())
	for flag, want := range map[string]string{
		"--context": "prod\ntest\n", "--cluster": "blue\n", "--user": "ann\n", "--namespace": "shop\nstaging\n", "-n": "shop\nstaging\n",
		"--controller-namespace": "shop\nstaging\n",
	} {
		names, _, _ := strings.Cut(printed(t, "__complete", "status", flag, ""), ":")
		// kubectl's functions return contexts in any order, and the shell sorts them.
		if got := strings.Split(strings.TrimSpace(names), "\n"); !slices.Equal(slices.Sorted(slices.Values(got)), strings.Fields(want)) {
			t.Errorf("%s: %q, want %q", flag, got, want)
		}
	}
}
