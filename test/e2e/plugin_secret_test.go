//go:build e2e

package e2e

import (
	"encoding/base64"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"confrev.io/confrev/internal/plugin"
	"confrev.io/confrev/test/gen"
)

// printing are command lines of every verb that has the flag --output, in a namespace in which deployment/web uses secret/db.
var printing = map[string][]string{
	"audit":   {""},
	"status":  {"", "deployment/web", "secret/db"},
	"history": {"secret/db", "deployment/web"},
	"uses":    {"secret/db"},
	"doctor":  {""},
	"preview": {"-f db.yaml"},
	"undo": {"deployment/web", "deployment/web secret/db --restore-source", "deployment/web secret/db --restore-source --to-revision=1",
		"deployment/web secret/db --restore-source --to-revision=2"},
	"stop":                  {"secret/db"},
	"resume":                {"deployment/web", "deployment/web secret/db", "secret/db"},
	"advance":               {"deployment/web"},
	"track":                 {"deployment/web", "deployment/web secret/db"},
	"untrack":               {"deployment/web"},
	"create configmap":      {"other --from-literal=k=v --owner=deployment/web"},
	"create secret generic": {"other --from-literal=k=canary-literal --owner=deployment/web"},
	"set owner":             {"secret/db deployment/web", "secret/db deployment/owner", "secret/db deployment/owner --remove"},
	"set volume":            {"deployment/web", "deployment/web -t secret --secret-name=db --mount-path=/x"},
}

// No verb prints a value of a Secret, in whatever format. Only a client dry run of "create secret" does: it prints its own
// command line.
func TestPluginPrintsNoValueOfASecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db", Annotations: map[string]string{"example.com/original": "canary-1"}},
		StringData: map[string]string{"password": "canary-1"}}, deployment("web", secretVolume("db")), deployment("owner", gen.Untracked))
	w.Eventually("pinned", func() string { return w.unpinned("web", "secret/db=", "@1") })
	w.Kubectl("patch", "secret", "db", "-p", `{"stringData":{"password":"canary-2"}}`)
	w.Eventually("advanced", func() string { return w.unpinned("web", "secret/db=", "@2") })
	dir := t.TempDir()
	w.writeFile(dir, "db.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData: {password: canary-3}\n")

	// In their order, in which untrack comes after those that need what is tracked.
	for _, verb := range slices.Sorted(maps.Keys(verbsWithOutput())) {
		lines, known := printing[verb]
		if !known {
			t.Errorf("%s has the flag --output, and no command line in this test", verb)
		}
		for _, line := range lines {
			w.printsNoValue(dir, verb, line)
		}
	}
}

func (w *world) printsNoValue(dir, verb, line string) {
	w.Helper()
	steps := []string{"-o yaml", "-o json"}
	if !slices.Contains([]string{"audit", "doctor", "history", "preview", "status", "uses"}, verb) {
		steps = []string{"-o yaml --dry-run=server", "-o json --dry-run=client", "-o jsonpath={.data}{.metadata} --dry-run=server", "-o yaml"}
	}
	for _, step := range steps {
		if verb == "create secret generic" && strings.Contains(step, "client") {
			continue
		}
		got := w.runIn(dir, "", append([]string{"kubectl", "confrev"}, strings.Fields(verb+" "+line+" "+step)...)...)
		if got.status != 0 && got.status != 3 || got.stdout == "" {
			w.Errorf("%s %s %s: status %d\n%s", verb, line, step, got.status, got.stderr)
		}
		for _, canary := range []string{"canary-literal", "canary-1", "canary-2", "canary-3"} {
			encoded := base64.StdEncoding.EncodeToString([]byte(canary))
			if text := got.stdout + got.stderr; strings.Contains(text, canary) || strings.Contains(text, encoded) {
				w.Errorf("%s %s %s prints a value:\n%s", verb, line, step, text)
			}
		}
	}
}

// verbsWithOutput returns the verbs that have the flag --output.
func verbsWithOutput() map[string]bool {
	verbs := map[string]bool{}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Runnable() && cmd.Flags().Lookup("output") != nil {
			verbs[strings.Join(strings.Fields(cmd.CommandPath())[2:], " ")] = true
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(plugin.Command(genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard}))
	return verbs
}
