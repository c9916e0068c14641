//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/gen"
)

// undoneTo has Deployments that share ConfigMap web, each rolled back from image 2 with content B to image 1 with content A.
func (w *world) undoneTo(options []deploymentOption, names ...string) (a, b pin.Pin) {
	w.Helper()
	w.Create(configMap("web", "color", "A"))
	for _, name := range names {
		w.Create(deployment(name, append([]deploymentOption{envFrom("web")}, options...)...))
		a = w.WaitPinned(name, "web", "color", "A")
	}
	w.Edit("web", "color", "B")
	for _, name := range names {
		w.Kubectl("set", "image", "deployment/"+name, "app=app:2")
		b = w.WaitPinned(name, "web", "color", "B")
		w.Undo(name, "--to-revision=1")
		w.WaitHeld(name, "web")
	}
	return a, b
}

// Rule 21.1: a workload that is deleted and created again in the middle of an incident stays where it was rolled back to. Without
// its hold, the manifest's pin is a choice like any other.
func TestReplaceForceKeepsAHold(t *testing.T) {
	t.Parallel()
	for name, noted := range map[string]bool{"with its note": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			// The other one uses the revision all the while, so that it is there whenever garbage collection looks.
			a, _ := w.undoneTo(nil, "web", "other")
			live := w.Deployment("web")
			manifest := w.Kubectl("get", "deployment/web", "-o", "yaml")
			if !noted {
				manifest = strings.ReplaceAll(manifest, keys.Held+":", "example.com/held:")
			}
			got := w.runIn("", manifest, "kubectl", "replace", "--force", "-f", "-")
			if got.status != 0 || !strings.Contains(got.stderr, "configmap/web stays on revision "+a.String()) {
				t.Errorf("status %d:\n%s%s", got.status, got.stdout, got.stderr)
			}
			if w.Deployment("web").UID == live.UID {
				t.Fatal("it is the same Deployment")
			}
			w.WaitHeld("web", "web")
			w.Barrier()
			if got := w.PinOf("web", "web"); got != a {
				t.Errorf("it is pinned to %s, want %s", got, a)
			}
			w.WaitOwned(a.Revision, "web", "other")
			w.podsRead(a.Revision)
			w.onlyReplicaSets("web", 1)
			w.Edit("web", "color", "fixed")
			w.WaitPinned("web", "web", "color", "fixed")
		})
	}
}

// Rule 21.1: a manifest that was exported from another namespace carries pins that are not revisions there, and perhaps the note of a
// hold. Neither counts.
func TestAnExportedManifestInAnotherNamespace(t *testing.T) {
	t.Parallel()
	for _, injection := range injections {
		t.Run(string(injection), func(t *testing.T) {
			t.Parallel()
			from, to := newWorld(t), newWorld(t)
			a, _ := from.undoneTo([]deploymentOption{injecting(injection), gen.Annotated(keys.Advance, "on-deploy")}, "web")
			to.Create(configMap("web", "color", "B"))
			got := to.runIn("", from.exported("deployments"), "kubectl", "apply", "-f", "-")
			if got.status != 0 || !strings.Contains(got.stderr, "is not a revision of it in this namespace") {
				t.Errorf("status %d:\n%s%s", got.status, got.stdout, got.stderr)
			}
			b := to.WaitPinned("web", "web", "color", "B")
			to.podsRead(b.Revision)
			to.Barrier()
			if d := to.Deployment("web"); d.Annotations[keys.Held] != "" || !to.Gone(a.Revision) {
				t.Errorf("it is held: %s", d.Annotations[keys.Held])
			}
			if names := map[optin.Injection]string{optin.Admission: "web", optin.Template: b.Revision}; to.templateNames() != names[injection] {
				t.Errorf("the template names %s", to.templateNames())
			}
			to.onlyReplicaSets("web", 1)
		})
	}
}

// Rule 21.1: workloads that come back from a backup along with the revisions run what they ran, and nothing rolls. A source that has
// moved on meanwhile is said, not rolled out.
func TestARestoredBackupRunsWhatItRan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, _ := w.undoneTo(nil, "web")
	w.Create(configMap("kept", "v", "1"), deployment("manual", envFrom("kept"), gen.Annotated(keys.Advance, "manual")))
	waiting := w.WaitPinned("manual", "kept", "v", "1")
	w.Edit("kept", "v", "2")
	w.WaitEvent("WaitingToAdvance", "manual", "configmap/kept")
	w.Create(configMap("plain", "v", "1"), deployment("plain", envFrom("plain")), deployment("late", envFrom("plain")))
	plain := w.WaitPinned("plain", "plain", "v", "1")
	w.WaitPinned("late", "plain", "v", "1")

	backup := w.exported("configmaps,deployments")
	w.Kubectl("delete", "deployment", "--all")
	w.Eventually("the revisions go", func() string {
		left := &corev1.ConfigMapList{}
		w.Must(cluster.Client.List(w.Ctx, left, client.InNamespace(w.NS), client.HasLabels{keys.Content}))
		if len(left.Items) > 0 {
			return fmt.Sprint(len(left.Items), " are left")
		}
		return ""
	})
	w.Kubectl("delete", "configmap", "web", "kept", "plain")
	// It names them, and has no pods: without it, confrev would delete the revisions after the grace time, while kubectl still applies the rest.
	w.Create(deployment("keeper", gen.Untracked, gen.Replicas(0), envFrom(a.Revision, waiting.Revision, plain.Revision)))
	w.KubectlIn(backup, "apply", "-f", "-")
	w.Kubectl("delete", "deployment/keeper")
	w.WaitHeld("web", "web")
	w.Barrier()
	for name, want := range map[string]pin.Pin{"web": a, "manual": waiting, "plain": plain, "late": plain} {
		source := map[string]string{"web": "web", "manual": "kept"}[name]
		if source == "" {
			source = "plain"
		}
		if got := w.PinOf(name, source); got != want {
			t.Errorf("%s is pinned to %s, want %s", name, got, want)
		}
		w.onlyReplicaSets(name, 1)
		w.WaitOwned(want.Revision, w.users(want.Revision)...)
	}

	// Its source is restored from Git first, with newer content.
	late := w.exported("deployments", "late")
	w.Kubectl("delete", "deployment/late")
	w.Kubectl("annotate", "deployment/plain", keys.Advance+"=manual")
	w.Edit("plain", "v", "2")
	w.KubectlIn(late, "apply", "-f", "-")
	w.WaitHeld("late", "plain")
	w.WaitEvent("Held", "late", plain.String())
	w.confrev("resume", "deployment/late").says("")
	w.WaitPinned("late", "plain", "v", "2")
}

// users lists the Deployments that pin a revision.
func (w *world) users(revision string) (names []string) {
	w.Helper()
	all := &appsv1.DeploymentList{}
	w.Must(cluster.Client.List(w.Ctx, all, client.InNamespace(w.NS)))
	for _, d := range all.Items {
		if strings.Contains(d.Spec.Template.Annotations[keys.Pins], "="+revision+"@") {
			names = append(names, d.Name)
		}
	}
	return names
}

// exported returns objects as a tool for backups restores them: without what the API server gives to a single object.
func (w *world) exported(what ...string) string {
	w.Helper()
	var list struct {
		APIVersion string           `json:"apiVersion"`
		Kind       string           `json:"kind"`
		Items      []map[string]any `json:"items"`
	}
	out := w.Kubectl(append([]string{"get", "-o", "json"}, what...)...)
	if len(what) > 1 {
		out = `{"apiVersion":"v1","kind":"List","items":[` + out + `]}`
	}
	w.Must(json.Unmarshal([]byte(out), &list))
	// Every namespace has these ConfigMaps by itself.
	list.Items = slices.DeleteFunc(list.Items, func(obj map[string]any) bool {
		meta, _ := obj["metadata"].(map[string]any)
		return meta["name"] == "kube-root-ca.crt" || meta["name"] == revision.AnchorName
	})
	for _, obj := range list.Items {
		delete(obj, "status")
		meta, _ := obj["metadata"].(map[string]any)
		obj["metadata"] = map[string]any{"name": meta["name"], "labels": meta["labels"], "annotations": meta["annotations"]}
	}
	text, err := json.Marshal(list)
	w.Must(err)
	return string(text)
}
