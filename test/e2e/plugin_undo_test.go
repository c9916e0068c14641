//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/gen"
)

// threeRevisions makes a Deployment that has rolled out three contents of ConfigMap app, and is on the last.
func (w *world) threeRevisions() {
	w.Helper()
	w.Create(configMap("app", "v", "1"), deployment("web", envFrom("app")))
	w.WaitPinned("web", "app", "v", "1")
	for _, v := range []string{"2", "3"} {
		w.Edit("app", "v", v)
		w.WaitPinned("web", "app", "v", v)
	}
}

func TestPluginUndoLeavesTheImage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.threeRevisions()
	w.Kubectl("set", "image", "deployment/web", "app=app:2")

	would := w.confrev("undo", "deployment/web", "--dry-run=server", "-o", "json").says()
	var shown appsv1.Deployment
	w.Must(json.Unmarshal([]byte(would.stdout), &shown))
	if pins := shown.Spec.Template.Annotations[keys.Pins]; !strings.HasSuffix(pins, "@2") || shown.Kind != "Deployment" {
		t.Errorf("the dry run gives a %s with pins %q", shown.Kind, pins)
	}
	w.confrev("undo", "deploy", "web", "--dry-run=client").says("deployment.apps/web rolled back (dry run)", "revision 3 -> 2")
	if n := w.PinOf("web", "app").Number; n != 3 {
		t.Fatalf("a dry run moved the pin to %d", n)
	}
	w.confrev("undo", "deployment/web").says("deployment.apps/web rolled back", "configmap/app: revision 3 -> 2", "held there until configmap/app changes",
		"kubectl confrev resume deployment/web")
	w.WaitPinned("web", "app", "v", "2")
	w.WaitHeld("web", "app")
	if image := w.Deployment("web").Spec.Template.Spec.Containers[0].Image; image != "app:2" {
		t.Errorf("the image went to %s", image)
	}
	// Held: nothing moves it forward, and a second undo continues backwards.
	w.Barrier()
	if n := w.PinOf("web", "app").Number; n != 2 {
		t.Errorf("the pin moved to %d", n)
	}
	if out := w.confrev("undo", "deployment/web", "cm/app", "-o", "name").says().stdout; out != "deployment.apps/web\n" {
		t.Errorf("-o name gives %q", out)
	}
	w.WaitPinned("web", "app", "v", "1")
	w.confrev("undo", "deployment/web", "configmap/app", "--to-revision=1").says("deployment.apps/web unchanged", "at revision 1 already")
	w.confrev("undo", "deployment/web", "configmap/app", "--to-revision=2").says("revision 1 -> 2")

	w.confrev("resume", "deployment/web").says("deployment.apps/web resumed", "configmap/app: revision 2 -> 3", "rolls out now")
	w.WaitPinned("web", "app", "v", "3")
	w.Eventually("the note of the hold goes", func() string { return w.Deployment("web").Annotations[keys.Held] })
	w.confrev("resume", "deployment/web", "configmap/app").says("deployment.apps/web unchanged", "has its present content already (revision 3)")
}

// The hold must be there at once, without a controller to see it.
func TestPluginUndoHoldsInItsOwnRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "v", "1"), deployment("web", envFrom("app"), gen.Annotated(keys.Advance, "manual")))
	w.WaitPinned("web", "app", "v", "1")
	w.Edit("app", "v", "2")
	w.WaitEvent("WaitingToAdvance", "web", "configmap/app changed")
	w.confrev("resume", "deployment/web").says("unchanged", "kubectl confrev advance deployment/web")
	w.confrev("advance", "deployment/web").says("deployment.apps/web advanced", "revision 1 -> 2")
	w.WaitPinned("web", "app", "v", "2")
	w.confrev("advance", "deployment/web").says("unchanged")

	out := w.confrev("undo", "deployment/web", "--dry-run=client", "-o", "json").says().stdout
	var would appsv1.Deployment
	w.Must(json.Unmarshal([]byte(out), &would))
	if note := would.Annotations[keys.Held]; !strings.Contains(note, "@2;on=") {
		t.Errorf("it would be held from %q", note)
	}
}

func TestPluginUndoWithTheRevisionsInTheTemplate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "v", "1"), deployment("web", envFrom("app"), gen.Annotated(keys.Injection, "template")))
	first := w.WaitPinned("web", "app", "v", "1")
	w.Edit("app", "v", "2")
	w.WaitPinned("web", "app", "v", "2")
	w.confrev("undo", "deployment/web").says("revision 2 -> 1")
	if name := w.Deployment("web").Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name; name != first.Revision {
		t.Errorf("the template names %s, want %s", name, first.Revision)
	}
	w.WaitHeld("web", "app")
}

func TestPluginUndoOfSeveralSourcesGoesBackTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "v", "1"), configMap("other", "v", "1"), deployment("web", envFrom("app", "other")))
	w.WaitPinned("web", "other", "v", "1")
	w.Edit("other", "v", "2")
	w.WaitPinned("web", "other", "v", "2")
	w.Edit("app", "v", "2")
	w.WaitPinned("web", "app", "v", "2")
	w.confrev("undo", "deployment/web", "--to-revision=1").fails(1, "deployment/web has several sources", "configmap/app")
	w.confrev("undo", "deployment/web").says("configmap/app: revision 2 -> 1")
	if n := w.PinOf("web", "other").Number; n != 2 {
		t.Errorf("the other source went to %d too", n)
	}
	w.WaitPinned("web", "app", "v", "1")
	w.confrev("undo", "deployment/web").says("configmap/other: revision 2 -> 1")
}

func TestPluginUndoRestoresTheSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.threeRevisions()
	w.confrev("undo", "deployment/web", "--restore-source", "--dry-run=client").says("configmap/app restored (dry run)")
	w.confrev("undo", "deployment/web", "--restore-source").says("configmap/app restored", "content of revision 2", "again")
	w.WaitPinned("web", "app", "v", "2")
	w.confrev("undo", "deployment/web", "configmap/app", "--restore-source", "--to-revision=1").says("content of revision 1")
	w.WaitPinned("web", "app", "v", "1")
	// What a workload is held on is what to restore.
	w.Edit("app", "v", "bad")
	w.WaitPinned("web", "app", "v", "bad")
	w.confrev("undo", "deployment/web").says("held there")
	w.WaitHeld("web", "app")
	held := w.PinOf("web", "app")
	w.confrev("undo", "deployment/web", "--restore-source").says("configmap/app restored")
	if now := w.WaitPinned("web", "app", "v", "1"); now.Revision != held.Revision {
		t.Errorf("held on %s, and restored to %s", held, now)
	}
}

// A source that is gone comes back with the content that the workload still has.
func TestPluginUndoRestoresADeletedSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.threeRevisions()
	certificate, key := selfSigned(t)
	tls := secret("tls", corev1.SecretTypeTLS, corev1.TLSCertKey, certificate, corev1.TLSPrivateKeyKey, key)
	tls.Annotations = map[string]string{keys.Policy: "revision"}
	w.Create(tls, deployment("server", secretVolume("tls")))
	w.waitSecretPinned("server", "tls", pin.Pin{})
	pinned := w.PinOf("web", "app")
	w.Kubectl("delete", "configmap/app", "secret/tls")
	w.confrev("undo", "deployment/web", "--restore-source", "--dry-run=server").says("configmap/app restored (server dry run)")
	if !w.Gone("app") {
		t.Error("a dry run created it")
	}
	w.confrev("undo", "deployment/web", "--restore-source").says("configmap/app restored", "content of revision 3")
	app := &corev1.ConfigMap{}
	w.Must(w.Get("app", app))
	if app.Data["v"] != "3" {
		t.Errorf("it has %q", app.Data)
	}
	w.confrev("undo", "deployment/server", "--restore-source").says("secret/tls restored", "content of revision 1")
	restored := &corev1.Secret{}
	w.Must(w.Get("tls", restored))
	if restored.Type != corev1.SecretTypeTLS || string(restored.Data[corev1.TLSCertKey]) != certificate {
		t.Errorf("it has the type %s, or another certificate", restored.Type)
	}
	w.Barrier()
	if now := w.PinOf("web", "app"); now != pinned || len(w.ReplicaSets("web")) != 3 {
		t.Errorf("pinned to %s, and now to %s", pinned, now)
	}
	// Content that the workload no longer has comes back if it is asked for.
	w.Kubectl("delete", "configmap/app")
	w.confrev("undo", "deployment/web", "--restore-source", "--to-revision=1").says("content of revision 1")
	w.WaitPinned("web", "app", "v", "1")
}

func TestPluginUndoSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "v", "1"), configMap("else", "v", "1"), deployment("web", envFrom("app", "else"), gen.Tracking("configmap/app")),
		deployment("plain", gen.Untracked, envFrom("app")))
	w.WaitPinned("web", "app", "v", "1")
	reader := w.account("reader", rights("apps", []string{"deployments", "replicasets"}, "get", "list"),
		rights("", []string{"configmaps", "namespaces"}, "get", "list"))
	for _, verb := range []string{"undo", "resume", "advance"} {
		w.confrev(verb).fails(1, "no workload given")
		w.confrev(verb, "web").fails(1, "want TYPE/NAME")
		w.confrev(verb, "deployment/none").fails(1, `deployments.apps "none" not found`)
		w.confrev(verb, "nothing/web").fails(1, `the server doesn't have a resource type "nothing"`)
		w.confrev(verb, "serviceaccount/default").fails(1, "serviceaccount/default is not a workload that confrev handles")
		w.confrev(verb, "deployment/web", "pod/x").fails(1, "configmap/NAME or secret/NAME")
		w.confrev(verb, "deployment/web", "configmap/none").fails(1, "deployment/web does not refer to configmap/none")
		w.confrev(verb, "deployment/web", "configmap/else").fails(1, "does not track configmap/else", "kubectl confrev track deployment/web configmap/else -n "+w.NS)
		w.confrev(verb, "deployment/plain").fails(1, "deployment/plain tracks nothing")
		w.confrev(verb, "deployment/web", "--nonsense").fails(1, "unknown flag: --nonsense")
		w.confrev(verb, "deployment/web", w.unreachable()).fails(1, "cannot reach the API server")
		w.confrev(verb, "deployment/web", w.account("stranger-"+verb)).fails(1, "forbidden", "deployments")
	}
	w.confrev("undo", "deployment/web").fails(1, "no revision of configmap/app before 1", "there is 1")
	w.confrev("undo", "deployment/web", "--to-revision=7").fails(1, "configmap/app has no revision 7: there is 1")
	w.confrev("undo", "deployment/web", "--to-revision=-1").fails(1, "--to-revision=-1")
	w.Edit("app", "v", "2")
	w.WaitPinned("web", "app", "v", "2")
	w.confrev("undo", "deployment/web", reader).fails(1, "forbidden", "cannot patch")
	w.confrev("undo", "deployment/web", "--restore-source", reader).fails(1, "forbidden", "cannot update")
}

// The examples of the help, on a Deployment that they fit.
func TestPluginExamplesOfUndoResumeAndAdvance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.threeRevisions()
	for _, verb := range []string{"undo", "resume", "advance"} {
		w.examples("", nil, verb)
	}
}

func TestPluginCompletesWorkloadsSourcesAndRevisions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.threeRevisions()
	w.completes([]string{"deployment/", "cronjob/"}, "undo", "")
	w.completes([]string{"deploy/web"}, "undo", "deploy/w")
	w.completes([]string{"configmap/app"}, "undo", "deployment/web", "")
	w.completes([]string{"1\n2\n3\n"}, "undo", "deployment/web", "configmap/app", "--to-revision", "")
}

// What the controller follows in other tools' words, the plugin does too: it plans with the controller's own options.
func TestPluginKnowsTheAnnotationsOfOtherTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "v", "1"),
		deployment("web", envFrom("app"), gen.Untracked, gen.Annotated("reloader.stakater.com/auto", "true"), gen.Annotated(keys.Advance, "manual")))
	w.waitFollowed("web", "configmap/app")
	if out := w.runIn("", strings.ReplaceAll(previewed, `"2"`, `"3"`), "kubectl", "confrev", "preview", "-f", "-").stdout; !strings.Contains(out, "(annotation confrev.io/advance)") {
		t.Errorf("preview says:\n%s", out)
	}
	w.Edit("app", "v", "2")
	w.WaitEvent("WaitingToAdvance", "web", "configmap/app changed")
	w.confrev("undo", "deployment/web").fails(1, "deployment/web has no pins to roll back: nothing is copied in mode restart")
	w.confrev("diff", "deployment/web").fails(2, "deployment/web has no pins: nothing is copied in mode restart")
	w.confrev("advance", "deployment/web").says("deployment.apps/web advanced", "configmap/app: restarts for its present content")
	w.waitRestarted("web", "configmap/app", "")
}

// Anyone who may change the workload can go back and on again. What such a user may not note on revisions, the controller does.
func TestPluginUndoWithoutARightToChangeRevisions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.threeRevisions()
	newest := &corev1.ConfigMap{}
	w.Must(w.Get(w.PinOf("web", "app").Revision, newest))
	for _, revision := range w.Revisions("app") {
		if revision.Data["v"] == "1" {
			w.WaitOwned(revision.Name, "web")
		}
	}
	onCall := w.account("on-call", rights("apps", []string{"deployments"}, "get", "list", "patch"), rights("apps", []string{"replicasets"}, "list"),
		rights("", []string{"configmaps"}, "get", "list"))
	w.confrev("undo", "deployment/web", "--to-revision=1", onCall).says("revision 3 -> 1")
	w.WaitHeld("web", "app")
	// One that was made within the last second needs no note that it is about to be pinned.
	w.Eventually("the newest revision is a second old", func() string {
		if age := time.Since(newest.CreationTimestamp.Time); age <= time.Second {
			return age.String()
		}
		return ""
	})
	resumed := w.confrev("resume", "deployment/web", onCall)
	if resumed.status != 0 || !strings.Contains(resumed.stdout, "revision 1 -> 3") || !strings.HasPrefix(resumed.stderr, "note: confrev's controller has to note") {
		t.Errorf("status %d: %s%s", resumed.status, resumed.stdout, resumed.stderr)
	}
	third := w.WaitPinned("web", "app", "v", "3")
	w.WaitOwned(third.Revision, "web")
}

// Every kind goes back and on again by the plugin, also while confrev is down: the hold is noted, and the pods of the kinds that
// replace them read what was pinned.
func pluginSteersWhileConfrevIsDown(m *member, s subject) {
	onlyWithPolicies(m.T)
	a, first := newWorld(m.T).launch(s, "web")
	second := a.editTo("B")
	a.waitOwned(second)
	m.next()
	a.confrev("undo", a.resource()).says("configmap/"+a.conf+": revision 2 -> 1", "secret/"+a.secret+": revision 2 -> 1", "held there")
	a.waitHolds()
	if got := a.reads("A"); got != first {
		m.Errorf("pods read %s, want %s", got, first)
	}
	a.confrev("resume", a.resource()).says("configmap/"+a.conf+": revision 1 -> 2", "secret/"+a.secret+": revision 1 -> 2")
	if got := a.reads("B"); got != second {
		m.Errorf("pods read %s, want %s", got, second)
	}
	m.next()
	a.Barrier()
	if got := a.pinned(); got != second {
		m.Errorf("confrev moves it from %s to %s", second, got)
	}
}
