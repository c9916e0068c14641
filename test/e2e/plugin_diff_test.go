//go:build e2e

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/test/gen"
)

func TestPluginDiff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app := configMap("app", "v", "1", "same", "x", "gone", "y")
	app.BinaryData = map[string][]byte{"bin": {0xff, 0}}
	w.Create(app, deployment("web", envKey("app", "v", false)))
	w.WaitPinned("web", "app", "v", "1")
	w.confrev("diff", "deployment/web").says()
	w.Edit("app", "v", "2")
	w.WaitPinned("web", "app", "v", "2")
	w.Kubectl("patch", "configmap", "app", "--type=merge", "-p", `{"data":{"v":"3","gone":null,"empty":""},"binaryData":{"bin":"AP8B"}}`)
	w.WaitPinned("web", "app", "v", "3")

	w.confrev("diff", "configmap/app").ends(1, "-2\n", "+3\n", "-y\n", "+(empty)\n", "-binary, 2 bytes, sha256:", "+binary, 3 bytes, sha256:")
	w.confrev("diff", "cm/app", "--from=1", "--to=2").ends(1, "-1\n", "+2\n", "--- configmap/app@1/app-", "+++ configmap/app@2/app-", "/v\t")
	w.confrev("diff", "configmap/app", "--from=3", "--to=source").says()
	w.confrev("diff", "configmap/app", "--from=1", "--to=0").ends(1, "-1\n", "+3\n")
	if out := w.confrev("diff", "configmap/app", "--from=1", "--to=2").stdout; strings.Contains(out, "same") {
		t.Errorf("it shows what did not change:\n%s", out)
	}
	w.confrev("undo", "deployment/web").says()
	// Only what the workload uses.
	if out := w.confrev("diff", "deployment/web").ends(1, "-2\n", "+3\n").stdout; strings.Contains(out, "gone") {
		t.Errorf("it shows what the workload does not use:\n%s", out)
	}
	// What was one file of both is two: the key v.k of app, and the key k of app.v.
	w.Edit("app", "v.k", "1")
	w.Create(configMap("app.v", "k", "1"), deployment("two", envFrom("app", "app.v")))
	w.WaitPinned("two", "app.v", "k", "1")
	w.Kubectl("annotate", "deployment/two", "confrev.io/advance=manual")
	w.Edit("app.v", "k", "one")
	w.Edit("app", "v.k", "two")
	w.confrev("diff", "deployment/two").ends(1, "+one\n", "+two\n", "+++ configmap/app.v/k\t", "+++ configmap/app/v.k\t")
	got := w.runIn("", "", "env", "KUBECTL_EXTERNAL_DIFF=diff -rq", "kubectl-confrev", "diff", "configmap/app", "--from=1", "--to=2")
	if got.status != 1 || !strings.Contains(got.stdout, "differ") {
		t.Errorf("with a program of the user: status %d\n%s%s", got.status, got.stdout, got.stderr)
	}
	w.examples("", []int{1}, "diff")
}

func TestPluginDiffMasksSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db"}, StringData: map[string]string{"password": "old-value", "user": "same-value"}})
	w.Create(deployment("web", secretVolume("db")))
	w.Eventually("pinned", func() string { return w.unpinned("web", "secret/db=", "@1") })
	w.Kubectl("patch", "secret", "db", "-p", `{"stringData":{"password":"new-value"}}`)
	w.Eventually("advanced", func() string { return w.unpinned("web", "secret/db=", "@2") })
	for _, args := range [][]string{{"secret/db"}, {"secret/db", "--from=1", "--to=source"}} {
		out := w.confrev(append([]string{"diff"}, args...)...).ends(1, "-*** (before)", "+*** (after)").stdout
		if strings.Contains(out, "value") || strings.Contains(out, "user") {
			t.Errorf("it shows\n%s", out)
		}
	}
	w.confrev("diff", "secret/db", "--show-secrets").ends(1, "-old-value", "+new-value")
	w.confrev("undo", "deployment/web", "secret/db").says("secret/db: revision 2 -> 1")
	out := w.confrev("undo", "deployment/web", "--restore-source", "-o", "yaml").says("kind: Secret").stdout
	if strings.Contains(out, "b2xkLXZhbHVl") || strings.Contains(out, "old-value") {
		t.Errorf("it shows\n%s", out)
	}
	w.Eventually("restored", func() string {
		secret := &corev1.Secret{}
		w.Must(w.Get("db", secret))
		if got := string(secret.Data["password"]); got != "old-value" {
			return got
		}
		return ""
	})
}

// unpinned complains while a Deployment has not rolled out such pins: until its controller has made a ReplicaSet of them, the next
// edit leaves no trace of them.
func (w *world) unpinned(name, prefix, suffix string) string {
	if text := w.PinsText(name); !strings.HasPrefix(text, prefix) || !strings.HasSuffix(text, suffix) {
		return "pins are " + text
	}
	return w.NotRolledOut(name)
}

func TestPluginDiffSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "v", "1"), configMap("fresh", "v", "1"), deployment("web", envFrom("app")), deployment("plain", gen.Untracked))
	w.WaitPinned("web", "app", "v", "1")
	w.confrev("diff").fails(2, "no workload given")
	w.confrev("diff", "configmap/fresh").fails(2, "configmap/fresh has no revisions")
	w.confrev("diff", "configmap/app").fails(2, "has no revision before 1", "--from=1 --to=source")
	w.confrev("diff", "configmap/app", "--to=9").fails(2, "has no revision 9: there is 1")
	w.confrev("diff", "configmap/app", "--from=x").fails(2, `--from=x: want the number of a revision, or "source"`)
	w.confrev("diff", "deployment/web", "--from=1").fails(2, "are for a source")
	w.confrev("diff", "deployment/plain").fails(2, "deployment/plain has no pins")
	w.confrev("diff", "deployment/none").fails(2, `deployments.apps "none" not found`)
	w.confrev("diff", "deployment/web", "--no-such").fails(2, "unknown flag")
	w.confrev("diff", "configmap/app", w.unreachable()).fails(2, "cannot reach the API server")
	w.confrev("diff", "configmap/app", w.account("stranger")).fails(2, "forbidden")
	got := w.runIn("", "", "env", "KUBECTL_EXTERNAL_DIFF=no-such-program", "kubectl-confrev", "diff", "configmap/app", "--from=1", "--to=source")
	if got.status != 2 || !strings.HasPrefix(got.stderr, "error: ") {
		t.Errorf("without a diff program: status %d\n%s", got.status, got.stderr)
	}
}
