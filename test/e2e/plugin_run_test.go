//go:build e2e

package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/test/env"
)

// buildPlugin builds kubectl-confrev once, and gives the folder that it is in.
var buildPlugin = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(cluster.Dir, "plugin")
	cmd := exec.Command("go", "build", "-o", dir+"/", "./cmd/kubectl-confrev")
	cmd.Dir = env.Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return dir, nil
})

// ran is what came of running the plugin.
type ran struct {
	*testing.T
	line, out, err string
	status         int
}

// confrev runs "kubectl confrev …" in the namespace, as a user does.
func (w *world) confrev(args ...string) ran {
	w.Helper()
	return w.confrevWith("", nil, args...)
}

// confrevWith runs it with something on its standard input and with further environment.
func (w *world) confrevWith(input string, environment []string, args ...string) ran {
	w.Helper()
	dir, err := buildPlugin()
	w.must(err)
	kubectl, err := cluster.Tool(w.ctx, "kubectl")
	w.must(err)
	// kubectl takes no flags before the name of a plugin.
	if !slices.Contains(args, "--namespace") {
		args = append(slices.Clone(args), "--namespace", w.ns)
	}
	cmd := exec.CommandContext(w.ctx, kubectl, append([]string{"confrev"}, args...)...)
	cmd.Env = append(os.Environ(), append([]string{
		"KUBECONFIG=" + cluster.Kubeconfig, "PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH"),
	}, environment...)...)
	cmd.Dir = w.TempDir()
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	err = cmd.Run()
	result := ran{T: w.T, line: "kubectl confrev " + strings.Join(args, " "), out: stdout.String(), err: stderr.String()}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		result.status, err = exit.ExitCode(), nil
	}
	w.must(err)
	return result
}

// confrevComplete asks what the last word could become, as the user's shell does.
func (w *world) confrevComplete(args ...string) ran {
	w.Helper()
	last := len(args) - 1
	return w.confrev(append([]string{"__complete"}, append(args[:last:last], "--namespace", w.ns, args[last])...)...)
}

// says checks that it succeeded and printed all these.
func (r ran) says(wants ...string) ran {
	r.Helper()
	if r.status != 0 {
		r.Errorf("%s: status %d: %s%s", r.line, r.status, r.out, r.err)
	}
	for _, want := range wants {
		if !strings.Contains(r.out, want) {
			r.Errorf("%s lacks %q:\n%s", r.line, want, r.out)
		}
	}
	return r
}

// fails checks that it failed with a status, nothing on its output and one clear line that has all these.
func (r ran) fails(status int, wants ...string) {
	r.Helper()
	line := strings.TrimSuffix(r.err, "\n")
	if r.status != status || r.out != "" || !strings.HasPrefix(line, "error: ") || strings.Contains(line, "\n") {
		r.Errorf("%s: status %d, want %d and one line:\n%s%s", r.line, r.status, status, r.out, r.err)
	}
	for _, want := range wants {
		if !strings.Contains(line, want) {
			r.Errorf("%s lacks %q: %s", r.line, want, line)
		}
	}
}

// nobody is a user who may do only what the rules say, in the namespace; as gives the flag to be them.
func (w *world) nobody(name string, rules ...rbacv1.PolicyRule) (as string) {
	w.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: w.ns}},
	}
	w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, role, binding)
	return "--as=system:serviceaccount:" + w.ns + ":" + name
}

// noServer are flags for a cluster whose API server does not answer.
func noServer() []string { return []string{"--server=https://127.0.0.1:1", "--insecure-skip-tls-verify"} }

// examples runs every example of a verb's help.
func (w *world) examples(verb ...string) {
	w.Helper()
	help := w.confrev(append(verb, "--help")...).says("Examples:").out
	_, after, _ := strings.Cut(help, "Examples:\n")
	text, _, _ := strings.Cut(after, "\n\nOptions:")
	text, _, _ = strings.Cut(text, "\n\nFlags:")
	count := 0
	for line := range strings.Lines(text) {
		if command, is := strings.CutPrefix(strings.TrimSpace(line), "kubectl confrev "); is {
			w.confrev(strings.Fields(command)...).says()
			count++
		}
	}
	if count == 0 {
		w.Errorf("the help of %s has no examples:\n%s", verb, help)
	}
}
