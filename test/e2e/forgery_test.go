//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/gen"
)

// forged makes what looks like a revision of a source: with this name, and with the label of a content that it need not have.
func forged(name, source string, claimed content.Hash, annotations map[string]string, data ...string) *corev1.ConfigMap {
	made := configMap(name, data...)
	made.Labels = map[string]string{keys.Source: source, keys.Content: string(claimed)}
	made.Annotations = map[string]string{keys.SourceName: source, keys.Number: "1"}
	maps.Copy(made.Annotations, annotations)
	made.Immutable = new(true)
	return made
}

// hashOf returns the hash of a ConfigMap of key, value, key, value, ….
func hashOf(data ...string) content.Hash {
	return content.FromConfigMap(configMap("x", data...)).Hash()
}

// trueName returns the name of the revision of a source with the given content.
func trueName(source string, data ...string) string {
	return content.RevisionName(source, hashOf(data...), 0)
}

// Rule 1: who writes a pin gets no other object mounted by it, also where nothing opted in.
func TestAPinMountsNothingButRevisions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(secret("deploy-staging", corev1.SecretTypeOpaque, "k", "v"), secret("deploy-prod", corev1.SecretTypeOpaque, "k", "v"))
	const pins = "secret/deploy-staging=deploy-prod@1"
	const words = "denied request: annotation confrev.io/pins pins a source to something that is not a revision of it"
	d := deployment("web", gen.Untracked, secretVolume("deploy-staging"))
	d.Spec.Template.Annotations = map[string]string{keys.Pins: pins}
	w.Create(d)
	w.Eventually("a ReplicaSet", func() string { return map[bool]string{true: "none"}[len(w.ReplicaSets("web")) == 0] })
	w.WaitEvent("FailedCreate", w.ReplicaSets("web")[0].Name, words)

	manifest := w.writeFile(t.TempDir(), "pod.yaml", `{apiVersion: v1, kind: Pod, metadata: {name: one, annotations: {confrev.io/pins: "`+pins+`"}},
		spec: {containers: [{name: app, image: app, envFrom: [{secretRef: {name: deploy-staging}}]}]}}`)
	w.tenant().mayNot(words, "create", "-f", manifest)
	pods := &corev1.PodList{}
	w.Must(cluster.Client.List(w.Ctx, pods, client.InNamespace(w.NS)))
	for _, pod := range pods.Items {
		t.Errorf("pod %s mounts %v", pod.Name, pod.Spec.Volumes)
	}
}

// Rules 13 and 20: labels and annotations get nothing deleted, anyone who writes them.
func TestForgedMetadataGetsNothingDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("mounted", "k", "v"), configMap("ingress", "k", "v"), deployment("web", gen.Untracked, envFrom("mounted")))
	hash := string(hashOf("k", "v"))
	ana := w.tenant()
	for _, name := range []string{"mounted", "ingress"} {
		cm := &corev1.ConfigMap{}
		w.Must(w.Get(name, cm))
		ana.may("label", "configmap", name, keys.Content+"="+hash)
		ana.may("annotate", "configmap", name, keys.SourceName+"="+name, keys.Attach+"=true", keys.Attached+"="+string(cm.UID), keys.Number+"=1")
	}
	w.Create(
		// What some tool named by a hash of its own.
		forged("tool-bcdfghjklm", "tool", hashOf("k", "v"), nil, "k", "v"),
		// The name of one content, and the data of another.
		forged(trueName("web", "k", "1"), "web", hashOf("k", "1"), nil, "k", "2"),
	)
	w.graceTimePasses()
	for _, name := range []string{"mounted", "ingress", "tool-bcdfghjklm", trueName("web", "k", "1")} {
		if w.Gone(name) {
			t.Errorf("%s was deleted", name)
		}
	}
}

// Rule 13: what a template names is in use, pinned or not.
func TestARevisionThatATemplateNamesStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	named := forged(trueName("web", "k", "v"), "web", hashOf("k", "v"), nil, "k", "v")
	w.Create(deployment("web", gen.Untracked, envFrom(named.Name)), named)
	w.graceTimePasses()
	if w.Gone(named.Name) {
		t.Error("it was deleted")
	}
}

// Rules 17 and 20: a change makes no object look like a revision.
func TestForgedRevisionIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	shaped := configMap("web-bcdfghjklm", "k", "v")
	shaped.Immutable = new(true)
	half := forged("app-bcdfghjklm", "app", hashOf("k", "v"), nil, "k", "v")
	half.Immutable = nil
	w.Create(shaped, half)
	const words = "would look like a revision of configmap/"
	ana := w.tenant()
	ana.mayNot(words+"web", "patch", "configmap", shaped.Name, "--type=merge", "-p", fmt.Sprintf(
		`{"metadata":{"labels":{%q:%q},"annotations":{%q:"web"}}}`, keys.Content, hashOf("k", "v"), keys.SourceName))
	ana.mayNot(words+"app", "patch", "configmap", half.Name, "--type=merge", "-p", `{"immutable":true}`)
	ana.may("label", "configmap", shaped.Name, keys.Content+"=v1-x")
	ana.may("label", "configmap", half.Name, "team=a")
	ana.may("delete", "configmap", shaped.Name, half.Name)
}

// Rules 4, 5, 8 and 20: forged revisions stop no rollout, end no hold and bring in no content.
func TestForgedRevisionsStopNothing(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	never := map[string]string{keys.Renewed: "2999-01-01T00:00:00Z", keys.Number: "900"}
	w.Create(
		// It has the name that content B will have, and other data.
		forged(trueName("web", "color", "B"), "web", hashOf("color", "B"), never, "color", "evil"),
		// It claims content B under a name that says nothing.
		forged("web-bcdfghjklm", "web", hashOf("color", "B"), never, "color", "evil"),
		// A label that is no content's.
		forged("web-zxwvtsrqpn", "web", hashOf("garbage", "x"), never, "color", "evil"),
	)
	w.Edit("web", "color", "B")
	b := w.WaitPinned("web", "web", "color", "B")
	if b.Number != a.Number+1 {
		t.Errorf("%s follows %s", b, a)
	}
	// It says that the source has its content now.
	source := &corev1.ConfigMap{}
	w.Must(w.Get("web", source))
	w.Create(forged(trueName("web", "color", "evil"), "web", hashOf("color", "evil"), map[string]string{
		keys.SourceVersion: string(source.UID) + "/" + source.ResourceVersion, keys.Number: "800",
	}, "color", "evil"))
	w.Undo("web")
	w.WaitHeld("web", "web")
	// Newer than anything, as it says.
	w.Create(forged(trueName("web", "color", "C"), "web", hashOf("color", "C"), map[string]string{keys.Number: "999999"}, "color", "C"))
	w.Kubectl("annotate", "deployment", "web", "note=look-again")
	w.Barrier()
	if got := w.PinOf("web", "web"); got != a {
		t.Errorf("pinned to %s, was rolled back to %s", got, a)
	}
	w.Edit("web", "color", "D")
	d := w.WaitPinned("web", "web", "color", "D")
	if d.Number != b.Number+1 {
		t.Errorf("%s follows %s", d, b)
	}
}

// neverGoes waits until an object is being deleted, and stays.
func (w *world) neverGoes(name string) {
	w.Helper()
	w.Eventually(name+" is being deleted", func() string {
		cm := &corev1.ConfigMap{}
		w.Must(w.Get(name, cm))
		return map[bool]string{true: "it is not"}[cm.DeletionTimestamp == nil]
	})
}

const keepFinalizer, noFinalizer = `{"metadata":{"finalizers":["example.com/keep"]}}`, `{"metadata":{"finalizers":null}}`

// Rule 8: who knows what a source is about to get creates its revision, so that garbage collection deletes it and a finalizer keeps it. That stops no
// workload.
func TestARevisionThatNeverGoesStopsNoRollout(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	stuck := forged(trueName("web", "color", "B"), "web", hashOf("color", "B"), nil, "color", "B")
	stuck.Finalizers = []string{"example.com/keep"}
	stuck.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "gone", UID: "gone"}}
	w.Create(stuck)
	w.neverGoes(stuck.Name)
	w.Edit("web", "color", "B")
	b := w.WaitPinned("web", "web", "color", "B")
	if b.Revision == stuck.Name || b.Number != a.Number+1 {
		t.Errorf("pinned to %s after %s", b, a)
	}
	w.Create(deployment("later", envFrom("web")))
	if later := w.WaitPinned("later", "web", "color", "B"); later != b {
		t.Errorf("pinned to %s, and a later one to %s", b, later)
	}
	w.Kubectl("patch", "configmap", stuck.Name, "--type=merge", "-p", noFinalizer)
	w.waitGone(stuck.Name)
	w.Barrier()
	if p := w.PinOf("web", "web"); p != b || len(w.ReplicaSets("web")) != 2 {
		t.Errorf("pinned to %s, then to %s, %d ReplicaSets", b, p, len(w.ReplicaSets("web")))
	}
}

// Rule 9: a workload whose revision never goes stays on it, and has it again once it is gone.
func TestAPinnedRevisionThatNeverGoesStays(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	w.WaitOwned(a.Revision, "web")
	w.unguarded("patch", "configmap", a.Revision, "--type=merge", "-p", keepFinalizer)
	w.unguarded("delete", "configmap", a.Revision, "--wait=false")
	w.neverGoes(a.Revision)
	// What is created the first time, the second one would move to.
	for _, touched := range []string{"once", "twice"} {
		w.Kubectl("annotate", "deployment", "web", "--overwrite", "example.com/touched="+touched)
		w.Barrier()
	}
	if all := w.Revisions("web"); len(all) != 1 {
		t.Errorf("%d revisions", len(all))
	}
	w.Kubectl("patch", "configmap", a.Revision, "--type=merge", "-p", noFinalizer)
	w.WaitEvent("RevisionRecreated", "web", a.Revision)
	w.WaitOwned(a.Revision, "web")
	w.Barrier()
	if p := w.PinOf("web", "web"); p != a || len(w.ReplicaSets("web")) != 1 {
		t.Errorf("pinned to %s, then to %s, %d ReplicaSets", a, p, len(w.ReplicaSets("web")))
	}
}
