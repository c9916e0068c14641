//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/env"
)

// The example Job, with the example's rights: it ends well when every workload is well with the change, and fails as soon as that is stopped.
// (The tests' nodes run no containers, so the command runs with the Job's account.)
func TestAJobWaitsForAChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text, err := os.ReadFile(filepath.Join(env.Root(), "docs", "examples", "wait-job.yaml"))
	w.Must(err)
	job, rights, _ := strings.Cut(strings.ReplaceAll(string(text), "configmap/app", "configmap/shared"), "\n---\n")
	var shown batchv1.Job
	w.Must(yaml.UnmarshalStrict([]byte(job), &shown))
	w.KubectlIn(job, "apply", "--dry-run=server", "-f", "-")
	w.KubectlIn(rights, "apply", "-f", "-")
	account := "--as=system:serviceaccount:" + w.NS + ":" + shown.Spec.Template.Spec.ServiceAccountName
	w.Eventually("the Job has its rights", func() string {
		_, err := cluster.Kubectl(w.Ctx, "auth", "can-i", "list", "configmaps", "--namespace", w.NS, account)
		return errorText(err)
	})
	first := w.fleet(map[string]string{keys.Steps: "1", keys.Bake: "1s", keys.OnFailure: "undo"}, "a", "b")
	waits := func(status int, says string) {
		t.Helper()
		if got := w.plugin(append(shown.Spec.Template.Spec.Containers[0].Args, account)...); got.status != status || !strings.Contains(got.stdout+got.stderr, says) {
			t.Errorf("status %d, want %d and %q:\n%s%s", got.status, status, says, got.stdout, got.stderr)
		}
	}
	w.Edit("shared", "color", "B")
	waits(0, "Complete")
	w.allHave(first, "a", "b")
	second := w.PinOf("b", "shared")
	end := w.noProgress("a")
	w.Edit("shared", "color", "broken")
	waits(4, "deployment/a failed with it")
	w.goesBack("a", second)
	end()
}
