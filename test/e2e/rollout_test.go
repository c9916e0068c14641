//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/test/gen"
)

// deployed makes a Deployment web that takes ConfigMap web, and waits until it is pinned.
func deployed(t *testing.T, options ...deploymentOption) (*world, pin.Pin) {
	t.Helper()
	w := newWorld(t)
	w.Create(configMap("web", "color", "A"), deployment("web", append([]deploymentOption{envFrom("web"), volume("web")}, options...)...))
	return w, w.WaitPinned("web", "web", "color", "A")
}

func (w *world) editTo(value string) pin.Pin {
	w.Helper()
	w.Edit("web", "color", value)
	return w.WaitPinned("web", "web", "color", value)
}

// reads returns the revision that each living pod of Deployment web reads, in all of its references alike.
func (w *world) reads() map[string]string {
	w.Helper()
	pods := &corev1.PodList{}
	w.Must(cluster.Client.List(w.Ctx, pods, client.InNamespace(w.NS), client.MatchingLabels{"app": "web"}))
	reads := map[string]string{}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp != nil {
			continue
		}
		var names []string
		for _, use := range podspec.Uses(&pod.Spec) {
			if use.Name != "kube-root-ca.crt" {
				names = append(names, use.Name)
			}
		}
		reads[pod.Name] = strings.Join(names, "+")
	}
	return reads
}

// readers counts the pods of Deployment web by the revision that they read.
func (w *world) readers() map[string]int {
	w.Helper()
	readers := map[string]int{}
	for _, revision := range w.reads() {
		readers[revision]++
	}
	return readers
}

// podsRead waits until every pod of Deployment web reads the revision.
func (w *world) podsRead(revision string) {
	w.Helper()
	w.Eventually("all pods read "+revision, func() string {
		if got := w.readers(); len(got) != 1 || got[revision] == 0 {
			return fmt.Sprint(got)
		}
		return ""
	})
}

// Rules 2, 4: the main job.
func TestEditUndoHoldEdit(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	w.podsRead(a.Revision)
	before := len(w.ReplicaSets("web"))

	b := w.editTo("B")
	if got := len(w.ReplicaSets("web")); got != before+1 {
		t.Errorf("an edit made %d new ReplicaSets, want 1", got-before)
	}
	w.podsRead(b.Revision)
	w.WaitEvent("RolledForward", "web", b.Revision)

	w.Undo("web")
	w.WaitHeld("web", "web")
	w.Barrier()
	if got := w.PinOf("web", "web"); got != a {
		t.Errorf("after the undo the pin is %s, want %s", got, a)
	}
	w.podsRead(a.Revision)
	w.WaitEvent("Held", "web", "staying on revision "+a.String())

	c := w.editTo("C")
	if c.Number <= b.Number {
		t.Errorf("the new revision %s should have a number above %s", c, b)
	}
	if note, ok := w.Deployment("web").Annotations[keys.Held]; ok {
		t.Errorf("the note %q should be gone", note)
	}
}

// The promise: a replacement of an old pod in the middle of a rollout reads what its ReplicaSet was rolled out with, whatever the
// source says by then.
func TestPodReplacedInMidRolloutReadsItsOwnRevision(t *testing.T) {
	t.Parallel()
	w, a := deployed(t, gen.Replicas(3))
	// New pods never become available, so the rollout is stuck half-way.
	w.Kubectl("patch", "deployment", "web", "-p",
		`{"spec":{"minReadySeconds":3600,"progressDeadlineSeconds":7200,"strategy":{"rollingUpdate":{"maxSurge":1,"maxUnavailable":1}}}}`)
	w.Edit("web", "color", "faulty")
	w.Eventually("the rollout is half-way", func() string {
		if got := w.readers(); got[a.Revision] != 2 || len(got) != 2 {
			return fmt.Sprint(got)
		}
		return ""
	})
	faulty := w.PinOf("web", "web").Revision

	for pod, revision := range w.reads() {
		if revision == a.Revision {
			w.Kubectl("delete", "pod", pod, "--wait=true")
		}
	}
	w.Eventually("the old pods are replaced", func() string {
		if got := w.readers(); got[a.Revision] != 2 || got[faulty] == 0 || len(got) != 2 {
			return fmt.Sprint(got)
		}
		return ""
	})
}

// Rule 5.
func TestEarlierContentReusesRevision(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	b := w.editTo("B")
	again := w.editTo("A")
	if again.Revision != a.Revision || again.Number <= b.Number {
		t.Errorf("A came back as %s, want revision %s with a number above %d", again, a.Revision, b.Number)
	}
	if got := len(w.Revisions("web")); got != 2 {
		t.Errorf("%d revisions, want 2", got)
	}

	w.Undo("web")
	w.WaitHeld("web", "web")
	w.Barrier()
	if got := w.PinOf("web", "web"); got != b {
		t.Errorf("undo after A→B→A went to %s, want %s", got, b)
	}
	// And B a second time is a change again.
	if forward := w.editTo("C"); forward.Number <= again.Number {
		t.Errorf("C is %s, want a number above %d", forward, again.Number)
	}
}

// Rule 4: the holders show the hold, whatever else changes.
func TestImageChangeOfAHeldDeploymentStaysHeld(t *testing.T) {
	t.Parallel()
	w, a := deployed(t, gen.HistoryLimit(1))
	w.editTo("B")
	w.Undo("web")
	w.WaitHeld("web", "web")
	for _, image := range []string{"app:2", "app:3", "app:4"} {
		// With this history limit, the ReplicaSet that shows the hold is soon gone; the note remains.
		w.Kubectl("set", "image", "deployment/web", "app="+image)
		w.WaitPinned("web", "web", "color", "A")
		w.Barrier()
		if got := w.PinOf("web", "web"); got != a {
			t.Fatalf("after image %s the pin is %s, want %s", image, got, a)
		}
	}
	w.editTo("C")
}

// Rule 4: the undo comes right after the edit, before any cache shows the new ReplicaSet.
func TestUndoAtOnceAfterAnAdvanceIsNotUndone(t *testing.T) {
	t.Parallel()
	w, a := deployed(t, gen.Annotated(keys.Settle, "0s"))
	w.editTo("B")
	w.Undo("web")
	w.WaitHeld("web", "web")
	for _, color := range []string{"C", "D", "E"} {
		w.Edit("web", "color", color)
		w.Eventually("the pin moves", func() string {
			if w.PinOf("web", "web") == a {
				return "not yet"
			}
			return ""
		})
		// No wait for the rollout.
		w.Kubectl("patch", "deployment", "web", "--type=merge", "-p",
			`{"spec":{"template":{"metadata":{"annotations":{"confrev.io/pins":"configmap/web=`+a.String()+`"}}}}}`)
		w.WaitHeld("web", "web")
		w.Barrier()
		if got := w.PinOf("web", "web"); got != a {
			t.Fatalf("after a rollback from %s the pin is %s, want %s", color, got, a)
		}
	}
}

// Rule 2.
func TestChangesAppliedTogetherAreOneRollout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := []string{"one", "two", "three"}
	for _, name := range names {
		w.Create(configMap(name, "k", "old"))
	}
	// On a busy machine, kubectl takes many seconds for the three of them.
	w.Create(deployment("web", envFrom("one"), volume("two"), envKey("three", "k", false), gen.Annotated(keys.Settle, "1m")))
	for _, name := range names {
		w.WaitPinned("web", name, "k", "old")
	}
	w.Eventually("the pins are rolled out", func() string { return w.NotRolledOut("web") })
	before := len(w.ReplicaSets("web"))

	dir := t.TempDir()
	for _, name := range names {
		w.writeFile(dir, name+".yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+"}\ndata: {k: new}\n")
	}
	w.Kubectl("apply", "-f", dir)
	for _, name := range names {
		w.WaitPinned("web", name, "k", "new")
	}
	w.Barrier()
	if got := len(w.ReplicaSets("web")) - before; got != 1 {
		t.Errorf("%d new ReplicaSets, want 1", got)
	}
}

// Rule 3.
func TestEditsThatDoNotMatterRollNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("web", "used", "1", "unused", "1"), deployment("web", envKey("web", "used", false)))
	pinned := w.WaitPinned("web", "web", "used", "1")
	generation := w.Deployment("web").Generation

	w.Kubectl("label", "configmap", "web", "team=a")
	w.Kubectl("annotate", "configmap", "web", "note=b")
	w.Edit("web", "unused", "2")
	w.Edit("web", "another", "3")
	w.Barrier()
	if d := w.Deployment("web"); d.Generation != generation {
		t.Errorf("the template changed: pins are %s, were %s", d.Spec.Template.Annotations[keys.Pins], pinned)
	}
	w.Edit("web", "used", "2")
	w.WaitPinned("web", "web", "used", "2")
}

// Nothing is touched without opting in.
func TestOnlyWhatOptsInIsTouched(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		opt  deploymentOption
		want []string
	}{
		"no annotation tracks nothing":         {opt: gen.Untracked, want: nil},
		"none tracks nothing":                  {opt: gen.Tracking("none"), want: nil},
		"all tracks what the template uses":    {opt: gen.Tracking("all"), want: []string{"configmap/one", "configmap/two"}},
		"a list tracks what it lists":          {opt: gen.Tracking("configmap/two"), want: []string{"configmap/two"}},
		"a slip in a list leaves the rest be":  {opt: gen.Tracking("configmap/one, deployment/x"), want: []string{"configmap/one"}},
		"a list may name what is not used yet": {opt: gen.Tracking("configmap/one,configmap/none"), want: []string{"configmap/one"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Create(configMap("one", "k", "v"), configMap("two", "k", "v"), deployment("web", tt.opt, envFrom("one"), volume("two")))
			if len(tt.want) > 0 {
				w.WaitPinned("web", strings.TrimPrefix(tt.want[0], "configmap/"), "k", "v")
			}
			w.Barrier()
			var got []string
			for _, source := range w.Pins("web").Sources() {
				got = append(got, source.String())
			}
			if strings.Join(got, " ") != strings.Join(tt.want, " ") {
				t.Errorf("pinned %q, want %q", got, tt.want)
			}
		})
	}
}

// A stranger who misspells something is told so on the Deployment.
func TestMistakesInAnnotationsAreReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("web", "k", "v"),
		deployment("web", envFrom("web"), gen.Tracking("configmap/web,cm/web,configmap/unused,secret/s"), gen.Annotated(keys.Settle, "soon")))
	w.WaitPinned("web", "web", "k", "v")
	w.WaitEvent("InvalidTrack", "web", `"cm/web" is not a source`)
	w.WaitEvent("NotReferenced", "web", "lists configmap/unused, secret/s, which the pod template does not refer to")
	w.WaitEvent("InvalidSettle", "web", `"soon"`)

	pinned := w.PinsText("web")
	said := w.warned("patch", "deployment", "web", "--type=merge", "-p",
		`{"spec":{"template":{"metadata":{"annotations":{"confrev.io/pins":"web@1"}}}}}`)
	if !strings.Contains(said, `"web@1" is not a pin`) {
		t.Errorf("kubectl said %q", said)
	}
	if got := w.PinsText("web"); got != pinned {
		t.Errorf("pins %s, want %s", got, pinned)
	}
}

// warned runs kubectl and returns the warnings that it printed.
func (w *world) warned(args ...string) string {
	w.Helper()
	got := w.runIn("", "", append([]string{"kubectl"}, args...)...)
	if got.status != 0 {
		w.Fatalf("kubectl %s: status %d: %s", strings.Join(args, " "), got.status, got.stderr)
	}
	return got.stderr
}
