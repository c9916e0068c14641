//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/gen"
)

const previewed = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: app
data:
  v: "2"
  other: x
`

func TestPluginPreview(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.KubectlIn(strings.ReplaceAll(previewed, `"2"`, `"1"`), "apply", "-f", "-")
	w.Create(deployment("web", envFrom("app")), deployment("key", envKey("app", "other", false)),
		deployment("manual", envFrom("app"), gen.Annotated(keys.Advance, "manual")), deployment("plain", gen.Untracked, envFrom("app")),
		deployment("stranger"))
	for _, name := range []string{"web", "key", "manual"} {
		w.WaitPinned(name, "app", "v", "1")
	}
	dir := t.TempDir()
	w.writeFile(dir, "app.yaml", previewed)

	got := w.runIn(dir, "", "kubectl", "confrev", "preview", "-f", "app.yaml", "-o", "json")
	var shown struct {
		Workloads []struct {
			Workload string
			RollsOut bool
			Sources  []struct{ Source, Verdict, Because string }
		}
	}
	if err := json.Unmarshal([]byte(got.stdout), &shown); err != nil || got.status != 0 {
		t.Fatalf("status %d, %v\n%s%s", got.status, err, got.stdout, got.stderr)
	}
	want := map[string]string{"deployment/web": "Advanced", "deployment/key": "InSync", "deployment/manual": "Waiting", "deployment/plain": "NotTracked"}
	for _, one := range shown.Workloads {
		if len(one.Sources) != 1 || one.Sources[0].Verdict != want[one.Workload] || one.RollsOut != (one.Workload == "deployment/web") {
			t.Errorf("of %s it says %+v, want %s", one.Workload, one, want[one.Workload])
		}
		delete(want, one.Workload)
	}
	if len(want) > 0 {
		t.Errorf("it says nothing of %v:\n%s", want, got.stdout)
	}
	table := w.runIn(dir, "", "kubectl", "confrev", "preview", "-f", "app.yaml")
	if line := strings.Join(table.rowOf(w.NS, "deployment/web"), " "); table.status != 0 || !strings.Contains(line, "yes") || !strings.Contains(line, "configmap/app: revision 1 -> 2") {
		t.Errorf("for people it says, with status %d, %q of deployment/web:\n%s%s", table.status, line, table.stdout, table.stderr)
	}
	w.Kubectl("rollout", "pause", "deployment/web")
	if got := w.runIn(dir, "", "kubectl", "confrev", "preview", "-f", "app.yaml").stdout; !strings.Contains(got, "when resumed") {
		t.Errorf("of a paused Deployment it says\n%s", got)
	}
	w.Kubectl("rollout", "resume", "deployment/web")
	if n := w.PinOf("web", "app").Number; n != 1 {
		t.Errorf("a preview moved a pin to %d", n)
	}
	if left := w.Revisions("app"); len(left) != 1 {
		t.Errorf("a preview left %d revisions", len(left))
	}
	w.Must(w.previewOfWorkload(dir))
	w.Must(os.Mkdir(filepath.Join(dir, "deploy"), 0o700))
	w.writeFile(dir, "deploy/app.yaml", previewed)
	w.previewsInAPipeline(dir)
	// With --exit-code, an example reports that something rolls out.
	w.examples(dir, []int{3}, "preview")
}

// previewsInAPipeline previews for a pull request: the page and the status say the same, and a preview of what is there already says 0.
func (w *world) previewsInAPipeline(dir string) {
	w.Helper()
	got := w.runIn(dir, "", "kubectl", "confrev", "preview", "-f", "app.yaml", "--exit-code", "-o", "markdown")
	for _, want := range []string{
		"## This edit restarts 1 workload, and reaches 1 later\n", "| `" + w.NS + "` | `deployment/web` | `configmap/app` | Advanced | at once | revision 1 -&gt; 2 |\n",
		"| `deployment/manual` | `configmap/app` | Waiting | later |", "| `deployment/key` | `configmap/app` | InSync | - |", "| `deployment/plain` | `configmap/app` | NotTracked | - |",
	} {
		if got.status != 3 || !strings.Contains(got.stdout, want) {
			w.Errorf("status %d, want 3 and %q:\n%s%s", got.status, want, got.stdout, got.stderr)
		}
	}
	same := strings.ReplaceAll(previewed, `"2"`, `"1"`)
	if got := w.runIn(dir, same, "kubectl", "confrev", "preview", "-f", "-", "--exit-code"); got.status != 0 {
		w.Errorf("of what is there already it says %d:\n%s%s", got.status, got.stdout, got.stderr)
	}
}

// previewOfWorkload previews a new image and a new configuration together.
func (w *world) previewOfWorkload(dir string) error {
	w.Helper()
	d := deployment("web", envFrom("app"))
	d.APIVersion, d.Kind = "apps/v1", "Deployment"
	d.Spec.Template.Spec.Containers[0].Image = "app:2"
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	got := w.runIn(dir, previewed+"\n---\n"+string(text), "kubectl", "confrev", "preview", "--server-side", "--force-conflicts", "-f", "-")
	for _, want := range []string{"its template changes", "configmap/app: revision 1 -> 2"} {
		if got.status != 0 || !strings.Contains(got.stdout, want) {
			w.Errorf("status %d, want %q:\n%s%s", got.status, want, got.stdout, got.stderr)
		}
	}
	if image := w.Deployment("web").Spec.Template.Spec.Containers[0].Image; image != "app:1" {
		w.Errorf("a preview set the image %s", image)
	}
	return nil
}

func TestPluginPreviewSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	file := w.writeFile(dir, "app.yaml", previewed)
	w.confrev("preview").fails(1, "must specify one of -f and -k")
	w.confrev("preview", "-f", "/nonexistent").fails(1, "/nonexistent", "does not exist")
	w.confrev("preview", "-f", file, "-o", "xml").fails(1, "unable to match a printer suitable for the output format")
	w.confrev("preview", "-f", file, w.unreachable()).fails(1, "cannot reach the API server")
	w.confrev("preview", "-f", file, w.account("stranger")).fails(1, "forbidden")
	w.confrev("preview", "-f", file).says("Nothing uses what is in the files.")
}

// Rule 21: preview says of a manifest that is an undo, and of a deploy that ends the hold, what becomes of them.
func TestPluginPreviewKnowsAnUndoFromADeploy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.onDeploy
	previews := func(manifest, want, pins string) {
		w.Helper()
		got := w.runIn("", manifest, "kubectl", "confrev", "preview", "--server-side", "--force-conflicts", "-f", "-")
		line := strings.Join(strings.Fields(got.stdout), " ")
		if got.status != 0 || !strings.Contains(line, "yes its template changes configmap/app: "+want) {
			w.Errorf("status %d, want %q:\n%s%s", got.status, want, got.stdout, got.stderr)
		}
		w.KubectlIn(manifest, "apply", "--server-side", "--force-conflicts", "-f", "-")
		w.Barrier()
		if got := w.PinsText("web"); got != pins {
			w.Errorf("applied, it is pinned to %s, want %s", got, pins)
		}
	}
	w.Create(configMap("app", "v", "1"))
	w.KubectlIn(first("app:1", ""), "apply", "--server-side", "-f", "-")
	w.WaitPinned("web", "app", "v", "1")
	a := w.PinsText("web")
	w.Edit("app", "v", "2")
	w.WaitEvent("WaitingToAdvance", "web", "configmap/app")
	w.KubectlIn(first("app:2", ""), "apply", "--server-side", "-f", "-")
	w.WaitPinned("web", "app", "v", "2")
	b := w.PinsText("web")
	previews(first("app:1", a), "held at revision 1: it was rolled back from this content", a)
	previews(first("app:2", ""), "rolled out to revision 2 with the workload", b)
}

// onDeploy returns a manifest of Deployment web that includes ConfigMap app with its deploys only.
func (w *world) onDeploy(image, pins string) string {
	w.Helper()
	d := deployment("web", envFrom("app"), gen.Annotated(keys.Advance, "on-deploy"))
	d.APIVersion, d.Kind = "apps/v1", "Deployment"
	d.Spec.Template.Spec.Containers[0].Image = image
	if pins != "" {
		d.Spec.Template.Annotations = map[string]string{keys.Pins: pins}
	}
	text, err := json.Marshal(d)
	w.Must(err)
	return string(text)
}

// preview says when the webhook did not answer its dry run: what it shows then is what the controller does afterwards.
func previewWithoutTheWebhook(m *member) {
	w := newWorld(m.T)
	w.Create(configMap("app", "v", "1"))
	w.KubectlIn(w.onDeploy("app:1", ""), "apply", "--server-side", "-f", "-")
	w.WaitPinned("web", "app", "v", "1")
	w.Edit("app", "v", "2")
	w.WaitEvent("WaitingToAdvance", "web", "configmap/app")
	previews := func(along bool, note string) {
		w.Helper()
		got := w.runIn("", w.onDeploy("app:2", ""), "kubectl", "confrev", "preview", "--server-side", "--force-conflicts", "-f", "-")
		line := strings.Join(strings.Fields(got.stdout), " ")
		if got.status != 0 || !strings.Contains(line, "yes its template changes") ||
			strings.Contains(line, "configmap/app: rolled out to revision 2 with the workload") != along ||
			!strings.HasPrefix(got.stderr, note) || note == "" && got.stderr != "" {
			w.Errorf("status %d, want %t and %q:\n%s%s", got.status, along, note, got.stdout, got.stderr)
		}
	}
	previews(true, "")
	m.next()
	previews(false, "note: confrev's webhook did not answer for deployment/web")
	m.next()
	previews(true, "")
}
