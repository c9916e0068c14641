package plugin

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/test/gen"
)

func TestAnErrorIsOneLine(t *testing.T) {
	if text := explain(errors.New(gen.Hostile), ""); !gen.Harmless(printer.Escaped(text)) {
		t.Errorf("it says %q", text)
	}
}

// A manifest is not read from the API server.
func TestAnErrorBlamesTheRightServer(t *testing.T) {
	failed := func(address string) error {
		return fmt.Errorf("read: %w", &url.Error{Op: "Get", URL: address, Err: &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no such host")}})
	}
	for name, test := range map[string]struct {
		err   error
		blame bool
	}{
		"the API server":         {failed("https://api.example:6443/apis/apps/v1/deployments?limit=500"), true},
		"the API server, later":  {&net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}, true},
		"the server of the file": {failed("https://typo.example/app.yaml"), false},
		"none":                   {errors.New("deployments.apps \"web\" not found"), false},
	} {
		if text := explain(test.err, "api.example:6443"); strings.Contains(text, "cannot reach the API server") != test.blame || !strings.Contains(text, test.err.Error()) {
			t.Errorf("%s: %q", name, text)
		}
	}
}

func TestTheServerToBlameIsThatOfTheFlags(t *testing.T) {
	connected(t, served)
	for args, blame := range map[string]bool{
		"doctor --server=http://127.0.0.1:1":   true,
		"preview -f http://127.0.0.1:1/a.yaml": false,
	} {
		var out bytes.Buffer
		status := Run(t.Context(), genericiooptions.IOStreams{In: &out, Out: &out, ErrOut: &out}, strings.Fields(args))
		if text := out.String(); status != 1 || strings.Contains(text, "cannot reach the API server") != blame || !strings.Contains(text, "127.0.0.1:1") {
			t.Errorf("%s: %d, %s", args, status, text)
		}
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

// served are the answers of an API server with two namespaces, by path.
var served = map[string]string{
	"/version":           `{"major":"1","minor":"35","gitVersion":"v1.35.0"}`,
	"/api":               `{"kind":"APIVersions","versions":["v1"]}`,
	"/apis":              `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}]}`,
	"/api/v1":            `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"namespaces","singularName":"namespace","kind":"Namespace","verbs":["list"]},{"name":"configmaps","singularName":"configmap","namespaced":true,"kind":"ConfigMap","verbs":["list"]},{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["list"]}]}`,
	"/api/v1/namespaces": `{"kind":"NamespaceList","apiVersion":"v1","items":[{"metadata":{"name":"shop"}},{"metadata":{"name":"staging"}}]}`,
	"/apis/apps/v1":      `{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[{"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment","verbs":["list"]}]}`,

	"/apis/apps/v1/deployments": `{"kind":"DeploymentList","apiVersion":"apps/v1","items":[]}`,
}

// connected makes the plugin use an API server that gives some answers.
func connected(t *testing.T, answers map[string]string) {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(answers[r.URL.Path]))
	}))
	t.Cleanup(api.Close)
	t.Chdir(t.TempDir())
	config := `{apiVersion: v1, kind: Config, current-context: prod, contexts: [{name: prod, context: {cluster: blue, user: ann}}, {name: test, context: {}}],
  clusters: [{name: blue, cluster: {server: "` + api.URL + `"}}], users: [{name: ann, user: {}}]}`
	if err := os.WriteFile("config", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", "config")
	t.Setenv("HOME", t.TempDir())
}

// Like kubectl apply, preview refuses a file of another namespace than the one that is asked for: it would be applied nowhere.
func TestPreviewRefusesAFileOfAnotherNamespace(t *testing.T) {
	connected(t, served)
	if err := os.WriteFile("app.yaml", []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: app, namespace: shop}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	streams, _, _, errOut := genericiooptions.NewTestIOStreams()
	want := `error: the namespace from the provided object "shop" does not match the namespace "staging"`
	if status := Run(t.Context(), streams, []string{"preview", "-n", "staging", "-f", "app.yaml"}); status != 1 || !strings.HasPrefix(errOut.String(), want) {
		t.Errorf("status %d: %s", status, errOut)
	}
}

func TestCompletionOfConnectionFlags(t *testing.T) {
	connected(t, served)
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
	if got := printed(t, "__complete", "status", "deployment/web", "-n", "sh"); !strings.HasPrefix(got, "shop\n:") {
		t.Errorf("behind an argument: %q", got)
	}
}

// Only what a verb takes is completed.
func TestCompletionOfWorkloads(t *testing.T) {
	answers := maps.Clone(served)
	for path, name := range map[string]string{"/api/v1/namespaces/default/pods": "web-1", "/apis/apps/v1/namespaces/default/deployments": "web"} {
		answers[path] = `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[{"metadata":{"name":"` + name + `"}}]}`
	}
	connected(t, answers)
	for typed, want := range map[string]string{"deployments/": "deployments/web\n", "pods/": ""} {
		if names, _, _ := strings.Cut(printed(t, "__complete", "undo", typed), ":"); names != want {
			t.Errorf("%s: %q, want %q", typed, names, want)
		}
	}
}

// printed runs the plugin, which must succeed, and returns what it prints.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	if status := Run(t.Context(), streams, args); status != 0 {
		t.Fatalf("%s: status %d: %s", strings.Join(args, " "), status, errOut)
	}
	return out.String()
}

func TestHelpLeavesOutFlagsOfConnection(t *testing.T) {
	tests := map[string]struct {
		args   []string
		has    string
		hasNot string
	}{
		"of the plugin, with its groups":       {[]string{"--help"}, "Sources and volumes:\n  create ", "--kubeconfig"},
		"of the plugin, without completion":    {[]string{"--help"}, "Other:\n  help ", "completion"},
		"of a verb":                            {[]string{"undo", "--help"}, "--restore-source", "--kubeconfig"},
		"of a verb, which says where they are": {[]string{"undo", "--help"}, `"kubectl confrev options" lists the flags`, "Global Flags"},
		"of a verb with a namespace of its own": {
			[]string{"render", "--help"}, "Namespace of objects that name none", "--kubeconfig",
		},
		"but not what lists them": {[]string{"options"}, "--kubeconfig", "--help"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := printed(t, tt.args...)
			if !strings.Contains(got, tt.has) || strings.Contains(got, tt.hasNot) {
				t.Errorf("want %q and not %q:\n%s", tt.has, tt.hasNot, got)
			}
		})
	}
}

// The reference and the manual pages are made of these texts.
func TestEveryCommandHasItsTexts(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Short == "" || !strings.HasPrefix(cmd.Example, "  ") && cmd.HasParent() {
			t.Errorf("%s: short text %q, examples %q", cmd.CommandPath(), cmd.Short, cmd.Example)
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(Command(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}}))
}

// configmap-attacher is called with one dash.
func TestSpelledOut(t *testing.T) {
	tests := map[string]struct{ args, want string }{
		"configmap-attacher's":  {"attach -rollout web -namespace prod -configmaps a,b", "attach --rollout web --namespace prod --configmaps a,b"},
		"with values behind =":  {"attach -rollout=web", "attach --rollout=web"},
		"as they are":           {"attach --rollout web -n prod -l a=b", "attach --rollout web -n prod -l a=b"},
		"a value is no flag":    {"attach --deployment rollout", "attach --deployment rollout"},
		"of other verbs":        {"status -rollout", "status -rollout"},
		"nothing":               {"", ""},
		"behind other flags":    {"-n x --context=c attach -rollout web", "-n x --context=c attach --rollout web"},
		"before the verb too":   {"-namespace x attach -rollout web", "--namespace x attach --rollout web"},
		"a value that is it":    {"-n attach status -rollout", "-n attach status -rollout"},
		"a switch has no value": {"--insecure-skip-tls-verify attach -rollout=web", "--insecure-skip-tls-verify attach --rollout=web"},
		"a flag of another one": {"attach -timeout 1s", "attach -timeout 1s"},
	}
	cmd := Command(genericiooptions.IOStreams{})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := spelledOut(cmd, strings.Fields(test.args)); !slices.Equal(got, strings.Fields(test.want)) {
				t.Errorf("got %q", got)
			}
		})
	}
}
