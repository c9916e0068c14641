//go:build e2e

package e2e

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/test/gen"
)

// Rule 8: an object name has at most 253 characters, a label 63.
func TestNamesOf253Characters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("a234567.9-", 25) + "xy"
	one, two := long+"1", long+"2"
	w.Create(configMap(one, "k", "v"), configMap(two, "k", "v"), deployment("web", envFrom(one), volume(two)))
	a, b := w.WaitPinned("web", one, "k", "v"), w.WaitPinned("web", two, "k", "v")
	if a.Revision == b.Revision {
		t.Errorf("two sources share revision %s", a.Revision)
	}
	w.Edit(one, "k", "w")
	w.WaitPinned("web", one, "k", "w")
	w.Eventually("both revisions have owners", func() string {
		for _, name := range []string{a.Revision, b.Revision} {
			revision := &corev1.ConfigMap{}
			w.Must(w.Get(name, revision))
			if len(revision.OwnerReferences) == 0 {
				return name + " has none"
			}
		}
		return ""
	})
}

// Rule 11. The API server takes 1 MiB of data; a revision has that and our own metadata.
func TestSourceOfAlmostOneMiB(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := configMap("web", "color", "A")
	blob := make([]byte, 1<<20-len("A")-100)
	for i := range blob {
		blob[i] = byte(rand.Uint32())
	}
	source.BinaryData = map[string][]byte{"blob": blob}
	w.Create(source, deployment("web", envFrom("web"), volume("web")))
	pinned := w.WaitPinned("web", "web", "color", "A")
	revision := &corev1.ConfigMap{}
	w.Must(w.Get(pinned.Revision, revision))
	if string(revision.BinaryData["blob"]) != string(blob) {
		t.Error("the revision's binaryData is not the source's")
	}
	w.editTo("B")
}

// A ConfigMap of very many keys: their digests are too long for an annotation, so contents are read instead.
func TestSourceOfManyKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := configMap("web", "color", "A")
	for i := range 2000 {
		source.Data[strings.Repeat("k", 100)+"-"+string(rune('a'+i%26))+strings.Repeat("x", i/26)] = "v"
	}
	w.Create(source, deployment("web", envKey("web", "color", false)))
	pinned := w.WaitPinned("web", "web", "color", "A")
	revision := &corev1.ConfigMap{}
	w.Must(w.Get(pinned.Revision, revision))
	if _, ok := revision.Annotations[keys.KeyDigests]; ok {
		t.Fatal("the digests fit; this test needs more keys")
	}
	w.Edit("web", "unused", "2")
	w.Barrier()
	if got := w.PinOf("web", "web"); got != pinned {
		t.Errorf("an unused key moved the pin to %s", got)
	}
	w.editTo("B")
}

// Trap: labels and annotations of other tools, copied, get the copies pruned or burst a limit. And a copy of an
// immutable source is like any other.
func TestRevisionTakesContentOfSourceOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := configMap("web", "color", "A")
	source.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm", "argocd.argoproj.io/instance": "x"}
	source.Annotations = map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": "{}", "meta.helm.sh/release-name": "x", keys.ChangeCause: "because",
	}
	source.Finalizers = []string{"confrev.io/e2e"}
	source.Immutable = new(true)
	source.BinaryData = map[string][]byte{"bin": {0, 255}}
	w.Create(source, deployment("web", volume("web")))
	pinned := w.WaitPinned("web", "web", "color", "A")
	revision := &corev1.ConfigMap{}
	w.Must(w.Get(pinned.Revision, revision))
	for key := range revision.Labels {
		if !strings.HasPrefix(key, keys.Prefix) {
			t.Errorf("label %s was copied", key)
		}
	}
	for key := range revision.Annotations {
		if !strings.HasPrefix(key, keys.Prefix) && key != keys.ChangeCause {
			t.Errorf("annotation %s was copied", key)
		}
	}
	if len(revision.Finalizers) > 0 || !*revision.Immutable || string(revision.BinaryData["bin"]) != "\x00\xff" {
		t.Errorf("finalizers %q, immutable %v, binaryData %v", revision.Finalizers, *revision.Immutable, revision.BinaryData)
	}
	if revision.Annotations[keys.ChangeCause] != "because" {
		t.Error("the change cause was not copied")
	}
	w.Kubectl("patch", "configmap", "web", "--type=json", "-p", `[{"op":"remove","path":"/metadata/finalizers"}]`)
}

// A revision is not a source.
func TestReferringToARevisionDirectlyIsLeftAlone(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	w.Create(deployment("direct", envFrom(a.Revision)))
	w.WaitEvent("NotASource", "direct", "refer to its source configmap/web instead")
	w.Barrier()
	if got := w.PinsText("direct"); got != "" {
		t.Errorf("pinned: %s", got)
	}
}

// A pod that the policies could not resolve within the API server's limits must not get pins: it could not be created.
func TestTemplateOfTooManyReferencesIsNotPinned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := deployment("web", gen.Replicas(0))
	for i := range podspec.MaxReferences + 1 {
		envKey("web", "color", false)(d)
		d.Spec.Template.Spec.Containers[0].Env[i].Name = "E" + strconv.Itoa(i)
	}
	w.Create(configMap("web", "color", "A"), d)
	w.WaitEvent("TooManyReferences", "web", "more than 4000 references")
	w.Barrier()
	if got := w.PinsText("web"); got != "" {
		t.Errorf("pinned: %s", got)
	}
}
