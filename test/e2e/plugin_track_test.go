//go:build e2e

package e2e

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/gen"
)

func TestPluginTrackAndUntrack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "v", "1"), configMap("other", "v", "1"), deployment("web", gen.Untracked, envFrom("app", "other")))

	w.confrev("track", "deployment/web", "configmap/app", "--dry-run=server").says("deployment.apps/web tracks (server dry run)")
	out := w.confrev("track", "deployment/web", "cm/app", "--dry-run=client", "-o", "json").says().stdout
	var would appsv1.Deployment
	w.Must(json.Unmarshal([]byte(out), &would))
	if got := would.Annotations[keys.Track]; got != "configmap/app" {
		t.Errorf("it would track %q", got)
	}
	if got := w.Deployment("web").Annotations[keys.Track]; got != "" {
		t.Fatalf("a dry run tracks %q", got)
	}
	w.confrev("track", "deployment/web", "configmap/app").says("deployment.apps/web tracks", "confrev.io/track: (nothing) -> configmap/app",
		"a controller pins configmap/app at once, which is a rollout")
	w.WaitPinned("web", "app", "v", "1")
	w.confrev("track", "deployment/web", "configmap/other").says("configmap/app -> configmap/app,configmap/other", "pins configmap/other at once")
	w.confrev("track", "deployment/web", "configmap/other").says("unchanged", "configmap/app,configmap/other")
	w.confrev("track", "deployment/web", "configmap/unused").says("does not refer to configmap/unused")
	w.confrev("untrack", "deployment/web", "configmap/unused").says("-> configmap/app,configmap/other")
	w.WaitPinned("web", "other", "v", "1")
	w.confrev("untrack", "deployment/web", "configmap/other").says("deployment.apps/web untracked", "-> configmap/app")
	w.confrev("untrack", "deployment/web", "configmap/other").fails(1, "does not list configmap/other: it is configmap/app")

	w.confrev("track", "deployment/web").says("configmap/app -> all")
	w.confrev("untrack", "deployment/web", "configmap/app").fails(1, "tracks all, which has no exceptions",
		"kubectl annotate deployment/web confrev.io/track=configmap/other --overwrite", "kubectl annotate configmap/app confrev.io/policy=live")
	w.confrev("untrack", "deployment/web").says("all -> none", "pins stay")
	w.Edit("app", "v", "2")
	w.Barrier()
	if n := w.PinOf("web", "app").Number; n != 1 {
		t.Errorf("untracked, it advanced to %d", n)
	}
}

func TestPluginUntrackSaysWhatStillOptsIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(deployment("web", gen.Tracking("configmap/app,configmap/other"), gen.Annotated(keys.Owners, "true"), envFrom("app", "other")))
	app := configMap("app", "v", "1")
	app.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: w.Deployment("web").UID}}
	w.Create(app, configMap("other", "v", "1"))
	w.WaitPinned("web", "app", "v", "1")
	w.WaitPinned("web", "other", "v", "1")
	w.confrev("untrack", "deployment/web", "configmap/app").says("-> configmap/other", "configmap/app is still tracked, since deployment/web owns it")
}

func TestPluginTrackSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(deployment("web"), deployment("odd", gen.Tracking("nonsense")))
	reader := w.account("reader", rights("apps", []string{"deployments"}, "get"))
	for _, verb := range []string{"track", "untrack"} {
		w.confrev(verb).fails(1, "no workload given")
		w.confrev(verb, "deployment/none").fails(1, `deployments.apps "none" not found`)
		w.confrev(verb, "deployment/web", "app").fails(1, "configmap/NAME or secret/NAME")
		w.confrev(verb, "deployment/odd", "configmap/app").fails(1, "malformed", "nonsense")
		w.confrev(verb, "deployment/web", w.unreachable()).fails(1, "cannot reach the API server")
	}
	w.confrev("untrack", "deployment/web", reader).fails(1, "forbidden", "cannot patch")
}

func TestPluginExamplesOfTrack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "v", "1"), deployment("web", gen.Untracked, envFrom("app")))
	w.examples("", nil, "track")
	w.confrev("untrack", "deployment/web").says()
	w.examples("", nil, "untrack")
}
