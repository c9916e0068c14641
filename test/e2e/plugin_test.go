//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"confrev.io/confrev/internal/plugin"
	"confrev.io/confrev/test/env"
)

// buildPlugin builds kubectl-confrev, once, and returns the directory in which kubectl finds it: kubectl is there too.
var buildPlugin = sync.OnceValues(func() (dir string, err error) {
	ctx := context.Background()
	dir = filepath.Join(cluster.Dir, "plugin")
	plugin, err := cluster.Build(ctx, "kubectl-confrev", false)
	if err != nil {
		return "", err
	}
	kubectl, err := cluster.Tool(ctx, "kubectl")
	if err != nil {
		return "", err
	}
	// As env.Cluster.Run does.
	patient := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = confrev ] || set -- --request-timeout=5m \"$@\"\nexec %q \"$@\"\n", kubectl)
	return dir, errors.Join(os.MkdirAll(dir, 0o700), os.Symlink(plugin, filepath.Join(dir, "kubectl-confrev")),
		os.WriteFile(filepath.Join(dir, "kubectl"), []byte(patient), 0o700)) //nolint:gosec // It is run.
})

// outcome is what became of a command.
type outcome struct {
	stdout, stderr string
	status         int
}

// runIn runs a command in a directory as a user of the namespace does: kubectl and the plugin are on the PATH, and the
// kubeconfig's context has the namespace.
func (w *world) runIn(dir, input string, command ...string) outcome {
	w.Helper()
	cmd := w.command(dir, command...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	// A command that never ends fails its own test, not the whole suite.
	w.Must(env.Start(cmd))
	impatient := time.AfterFunc(2*patience, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	if !impatient.Stop() {
		w.Fatalf("%s: did not end within %s\n%s%s", strings.Join(command, " "), 2*patience, &stdout, &stderr)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.Fatalf("%s: %v", strings.Join(command, " "), err)
	}
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// watching runs a command that watches, and hands its output to look, line by line, until that has seen enough. Then the command is
// interrupted, as a user would do it, and must end.
func (w *world) watching(look func(line string) (enough bool), command ...string) {
	w.Helper()
	cmd := w.command("", command...)
	out, err := cmd.StdoutPipe()
	w.Must(err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	w.Must(env.Start(cmd))
	impatient := time.AfterFunc(2*patience, func() { _ = cmd.Process.Kill() })
	defer impatient.Stop()
	enough := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if !enough && look(lines.Text()) {
			enough = true
			w.Must(cmd.Process.Signal(os.Interrupt))
		}
	}
	if err := cmd.Wait(); !enough || cmd.ProcessState.ExitCode() < 0 {
		w.Errorf("%s: %v, and it had not shown all that it should\n%s", strings.Join(command, " "), err, &stderr)
	}
}

// command prepares a command that runIn would run.
func (w *world) command(dir string, command ...string) *exec.Cmd {
	w.Helper()
	tools, err := buildPlugin()
	w.Must(err)
	name := command[0]
	if own := filepath.Join(tools, name); name == "kubectl" || name == "kubectl-confrev" {
		name = own
	}
	cmd := exec.CommandContext(w.Ctx, name, command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "KUBECONFIG="+w.kubeconfig())
	return cmd
}

// kubeconfig writes one whose context has the namespace.
func (w *world) kubeconfig() string {
	w.Helper()
	path := filepath.Join(w.TempDir(), "kubeconfig")
	w.Must(cluster.WriteKubeconfig(path, func(_ *clientcmdapi.Config, current *clientcmdapi.Context) { current.Namespace = w.NS }))
	return path
}

// plugin runs kubectl confrev in the namespace.
func (w *world) plugin(args ...string) outcome {
	w.Helper()
	return w.runIn("", "", append([]string{"kubectl", "confrev"}, args...)...)
}

// pluginPrints runs kubectl confrev, which must succeed, and returns what it printed.
func (w *world) pluginPrints(args ...string) string {
	w.Helper()
	got := w.plugin(args...)
	if got.status != 0 {
		w.Fatalf("kubectl confrev %s: status %d\n%s%s", strings.Join(args, " "), got.status, got.stdout, got.stderr)
	}
	return got.stdout
}

// pluginJSON runs kubectl confrev with -o json, reads what it printed, and returns its status.
func (w *world) pluginJSON(into any, args ...string) (status int) {
	w.Helper()
	got := w.plugin(append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(got.stdout), into); err != nil {
		w.Fatalf("kubectl confrev %s -o json: status %d, %v\n%s%s", strings.Join(args, " "), got.status, err, got.stdout, got.stderr)
	}
	return got.status
}

// pluginFails runs kubectl confrev, which must fail as a user can make sense of it: one line on standard error that
// contains a text, nothing on standard output.
func (w *world) pluginFails(status int, contains string, args ...string) {
	w.Helper()
	got := w.plugin(args...)
	switch {
	case got.status != status:
		w.Errorf("kubectl confrev %s: status %d, want %d\n%s%s", strings.Join(args, " "), got.status, status, got.stdout, got.stderr)
	case got.stdout != "" || strings.Count(got.stderr, "\n") != 1 || !strings.HasPrefix(got.stderr, "error: ") || !strings.Contains(got.stderr, contains):
		w.Errorf("kubectl confrev %s: want one line with %q\nstdout: %s\nstderr: %s", strings.Join(args, " "), contains, got.stdout, got.stderr)
	}
}

// unreachable returns the flag for a kubeconfig whose API server does not run.
func (w *world) unreachable() string {
	w.Helper()
	address, err := env.FreeAddress()
	w.Must(err)
	path := filepath.Join(w.TempDir(), "unreachable")
	w.Must(cluster.WriteKubeconfig(path, func(config *clientcmdapi.Config, current *clientcmdapi.Context) {
		config.Clusters[current.Cluster].Server = "https://" + address
	}))
	return "--kubeconfig=" + path
}

// account returns the flag to act as a ServiceAccount that has these rights in the namespace, and no others.
func (w *world) account(name string, rules ...rbacv1.PolicyRule) string {
	w.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: w.NS}},
	}
	w.Create(role, binding)
	user := "system:serviceaccount:" + w.NS + ":" + name
	for _, rule := range rules {
		w.Eventually("the rights of "+name, func() string { return w.lacks(user, rule) })
	}
	return "--as=" + user
}

// lacks complains until the API server knows that a user has a right.
func (w *world) lacks(user string, rule rbacv1.PolicyRule) string {
	w.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: w.NS, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0],
			Name: strings.Join(rule.ResourceNames, "")},
	}}
	w.Must(cluster.Client.Create(w.Ctx, review))
	if !review.Status.Allowed {
		return fmt.Sprintf("%s may not %s %s yet", user, rule.Verbs[0], rule.Resources[0])
	}
	return ""
}

// rights makes a rule of RBAC for resources of one API group.
func rights(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// examplesOf returns the command lines of a verb's examples, as its help shows them.
func examplesOf(t *testing.T, verb ...string) []string {
	t.Helper()
	cmd, _, err := plugin.Command(genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard}).Find(verb)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(cmd.Example) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		t.Errorf("the help of %s has no examples", strings.Join(verb, " "))
	}
	return lines
}

// runExample runs a command line of a verb's help in a directory. Only statuses of success will do: 0 and those given. What watches is
// interrupted when it has shown something.
func (w *world) runExample(dir, line string, others ...int) outcome {
	w.Helper()
	if strings.Contains(line, " --watch") {
		w.watching(func(string) bool { return true }, strings.Fields(line)...)
		return outcome{}
	}
	got := w.runIn(dir, "", "sh", "-c", line)
	if got.status != 0 && !slices.Contains(others, got.status) {
		w.Errorf("%s: status %d\n%s%s", line, got.status, got.stdout, got.stderr)
	}
	return got
}

// Every verb has examples in its help, and help is no error.
func TestPluginHelp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())[2:]
		if got := w.pluginPrints(append(path, "--help")...); !strings.Contains(got, cmd.CommandPath()) {
			t.Errorf("help of %q:\n%s", cmd.CommandPath(), got)
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		if cmd.HasParent() && cmd.Runnable() {
			examplesOf(t, path...)
		}
	}
	visit(plugin.Command(genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard}))
}

// What is no verb, and no flag, is one clear line.
func TestPluginMisspelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pluginFails(1, `unknown command "statsu"`, "statsu")
	w.pluginFails(1, "unknown flag: --no-such", "version", "--no-such")
}
