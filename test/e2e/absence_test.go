//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/gen"
)

// Rule 6: where every use is optional, the absence of a source is the revision of empty content.

// optional takes all keys of ConfigMaps, if they are there.
func optional(sources ...string) deploymentOption {
	return func(d *appsv1.Deployment) {
		c := &d.Spec.Template.Spec.Containers[0]
		for _, source := range sources {
			c.EnvFrom = append(c.EnvFrom, sourceRef{kind: pin.ConfigMap, name: source, optional: new(true)}.envFrom())
		}
	}
}

// wholeOptional makes the template of a pod that takes all keys of a ConfigMap and of a Secret, if they are there.
func wholeOptional(name, conf, secret string) map[string]any {
	return templateOf(name, corev1.Container{EnvFrom: []corev1.EnvFromSource{
		sourceRef{kind: pin.ConfigMap, name: conf, optional: new(true)}.envFrom(),
		sourceRef{kind: pin.Secret, name: secret, optional: new(true)}.envFrom(),
	}})
}

// waitAbsent waits until a Deployment has rolled out the absence of a ConfigMap.
func (w *world) waitAbsent(deployment, source string) pin.Pin {
	w.Helper()
	var p pin.Pin
	w.Eventually(deployment+" rolls out the absence of "+source, func() string {
		if p = w.PinOf(deployment, source); p == (pin.Pin{}) {
			return "it has no pin"
		}
		revision := &corev1.ConfigMap{}
		if err := w.Get(p.Revision, revision); err != nil {
			return err.Error()
		}
		if len(revision.Data)+len(revision.BinaryData) != 0 || revision.Immutable == nil || !*revision.Immutable {
			return fmt.Sprintf("it is pinned to %s, which has %v", p, revision.Data)
		}
		return w.NotRolledOut(deployment)
	})
	return p
}

// requiresRevision checks that the pods of Deployment web refer to a revision that they cannot start without.
func (w *world) requiresRevision(name string) {
	w.Helper()
	w.Eventually("all pods require "+name, func() string {
		pods := &corev1.PodList{}
		w.Must(cluster.Client.List(w.Ctx, pods, client.InNamespace(w.NS), client.MatchingLabels{"app": "web"}))
		for _, pod := range pods.Items {
			from := pod.Spec.Containers[0].EnvFrom[0].ConfigMapRef
			if pod.DeletionTimestamp == nil && (from.Name != name || from.Optional == nil || *from.Optional) {
				return fmt.Sprintf("%s refers to %s, optional: %v", pod.Name, from.Name, from.Optional)
			}
		}
		return ""
	})
}

func TestADeletedOptionalSourceRollsOutAndIsUndone(t *testing.T) {
	t.Parallel()
	for _, injection := range []optin.Injection{optin.Admission, optin.Template} {
		t.Run(string(injection), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			manifest := deployment("web", optional("web"), injecting(injection), gen.Replicas(2))
			w.Create(configMap("web", "color", "A"), manifest.DeepCopy())
			a := w.WaitPinned("web", "web", "color", "A")
			w.Kubectl("delete", "configmap", "web")
			none := w.waitAbsent("web", "web")
			w.requiresRevision(none.Revision)
			if got := len(w.ReplicaSets("web")); got != 2 {
				t.Errorf("the deletion made %d ReplicaSets of one", got)
			}
			if notes := w.Events("SourceMissing", "web"); len(notes) > 0 {
				t.Errorf("it is no reason to warn: %q", notes)
			}
			// Back to the time before, and it stays.
			w.Undo("web")
			w.WaitHeld("web", "web")
			w.Barrier()
			if got := w.PinOf("web", "web"); got != a || w.Gone(a.Revision) {
				t.Fatalf("undone, it is on %s, want %s", got, a)
			}
			w.requiresRevision(a.Revision)
			// Something else that appears is a change.
			w.Create(configMap("web", "color", "B"))
			b := w.WaitPinned("web", "web", "color", "B")
			// To the time without it, and it stays.
			w.Undo("web", "--to-revision="+w.rolloutRevision("web", none))
			w.WaitHeld("web", "web")
			w.Barrier()
			if got := w.PinOf("web", "web"); got != none {
				t.Fatalf("undone from %s, it is on %s, want %s", b, got, none)
			}
			w.requiresRevision(none.Revision)
			if got := len(w.ReplicaSets("web")); got != 3 {
				t.Errorf("%d ReplicaSets, want 3", got)
			}
		})
	}
}

// What was written stays: no apply finds a difference, makes a rollout, or takes a field from its owner.
func TestApplyingAnOptionalReferenceAgainChangesNothing(t *testing.T) {
	t.Parallel()
	for _, injection := range []optin.Injection{optin.Admission, optin.Template} {
		t.Run(string(injection), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			d := deployment("web", optional("web"), injecting(injection))
			d.APIVersion, d.Kind, d.Namespace = "apps/v1", "Deployment", w.NS
			text, err := json.Marshal(d)
			w.Must(err)
			manifest := w.writeFile(t.TempDir(), "web.json", string(text))
			w.Create(configMap("web", "color", "A"))
			w.Kubectl("apply", "-f", manifest)
			w.WaitPinned("web", "web", "color", "A")
			w.Kubectl("delete", "configmap", "web")
			w.waitAbsent("web", "web")
			generation := w.Deployment("web").Generation
			w.Kubectl("diff", "-f", manifest)
			w.Kubectl("apply", "-f", manifest)
			w.Kubectl("diff", "--server-side", "--force-conflicts", "-f", manifest)
			w.Barrier()
			got := w.Deployment("web")
			if from := got.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef; !*from.Optional || got.Generation != generation {
				t.Errorf("generation %d became %d; optional is %v", generation, got.Generation, *from.Optional)
			}
		})
	}
}

func TestEveryKindRollsOutAnAbsence(t *testing.T) {
	forEachKind(t, func(w *world, s subject) {
		a := w.app(s, "web")
		a.form = wholeOptional
		a.createWorkload(map[string]string{keys.Track: "all"})
		absent := a.waitPinnedTo("")
		if got := a.pinned(); got != absent || absent.conf.Number != 1 {
			w.Errorf("created without its sources it is pinned to %s", got)
		}
		if notes := w.Events("SourceMissing", a.name); len(notes) > 0 {
			w.Errorf("an optional source is no reason to warn: %q", notes)
		}
		w.Barrier()
		generation := a.generation()
		w.AtOnce(func() { a.createSources("A") })
		a.waitPinnedTo("A")
		w.AtOnce(func() { w.Kubectl("delete", "configmap/"+a.conf, "secret/"+a.secret) })
		again := a.waitPinnedTo("")
		if again.revisions() != absent.revisions() || again.conf.Number != 3 {
			w.Errorf("absent again it is pinned to %s, and was to %s", again, absent)
		}
		if got := a.generation() - generation; got > 2 {
			w.Errorf("two changes were %d changes to the template", got)
		}
	})
}

// What another workload requires, or what requires it itself, keeps its pin.
func TestAnAbsenceConcernsOneWorkload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("web", "color", "A"), deployment("web", optional("web")), deployment("strict", envFrom("web")),
		deployment("both", optional("web"), envKey("web", "color", false)))
	a := w.WaitPinned("web", "web", "color", "A")
	w.WaitPinned("strict", "web", "color", "A")
	w.WaitPinned("both", "web", "color", "A")
	w.Barrier()
	// On a busy machine, the webhook may have missed a request, so that the first pin is a ReplicaSet of its own.
	replicaSets := func() int { return len(w.ReplicaSets("strict")) + len(w.ReplicaSets("both")) }
	before := replicaSets()
	w.Kubectl("delete", "configmap", "web")
	w.waitAbsent("web", "web")
	for _, name := range []string{"strict", "both"} {
		w.WaitEvent("SourceMissing", name, "pods keep using its revision "+a.String())
	}
	w.Barrier()
	for _, name := range []string{"strict", "both"} {
		if got := w.PinOf(name, "web"); got != a {
			t.Errorf("%s is on %s, want %s", name, got, a)
		}
	}
	// The same content is nothing new to those that kept it, and is to the other.
	w.Create(configMap("web", "color", "A"))
	if back := w.WaitPinned("web", "web", "color", "A"); back.Revision != a.Revision || back.Number <= a.Number {
		t.Errorf("it is back on %s, and was on %s", back, a)
	}
	w.Barrier()
	if got := replicaSets(); got != before {
		t.Errorf("two Deployments that kept their pins had %d ReplicaSets, and have %d", before, got)
	}
}

// A workload from before gets no pin of what it never had, until its template changes.
func TestAnAbsenceIsPinnedWithTheNextDeploy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(deployment("web", optional("web"), gen.Untracked))
	w.Kubectl("annotate", "deployment/web", keys.Track+"=all")
	w.Barrier()
	if got := w.PinsText("web"); got != "" {
		t.Fatalf("opted in, it is pinned to %s", got)
	}
	w.Kubectl("set", "image", "deployment/web", "*=app:2")
	w.waitAbsent("web", "web")
	if got := len(w.ReplicaSets("web")); got != 2 {
		t.Errorf("the new image made %d ReplicaSets of one", got)
	}
}

// No one could know that it would be read live, so a pin of its absence goes when it appears.
func TestAnAbsenceIsNotPinnedOnceTheSourceIsReadLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(deployment("web", optional("web")))
	w.waitAbsent("web", "web")
	live := configMap("web", "color", "A")
	live.Annotations = map[string]string{keys.Policy: "live"}
	w.Create(live)
	w.Eventually("the pin goes", func() string {
		if text := w.PinsText("web"); text != "" {
			return text
		}
		return w.NotRolledOut("web")
	})
	if got := len(w.ReplicaSets("web")); got != 2 {
		t.Errorf("it made %d ReplicaSets of one", got)
	}
}

// Rule 9: the revision of an absence is made again like any other.
func TestTheRevisionOfAnAbsenceIsRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(deployment("web", optional("web")))
	none := w.waitAbsent("web", "web")
	var before corev1.ConfigMap
	w.Must(w.Get(none.Revision, &before))
	w.unguarded("delete", "configmap/"+none.Revision)
	w.WaitEvent("RevisionRecreated", "web", none.Revision)
	var after corev1.ConfigMap
	w.Must(w.Get(none.Revision, &after))
	if after.UID == before.UID || len(after.Data) != 0 {
		t.Errorf("it is %v", after)
	}
}

// Rule 18: the sources of a namespace that is being deleted go one by one. That is no absence.
func TestNoAbsenceInANamespaceThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := deployment("web", optional("web"))
	d.Finalizers = []string{"example.com/keep"}
	w.Create(configMap("web", "color", "A"), d)
	a := w.WaitPinned("web", "web", "color", "A")
	w.Kubectl("delete", "namespace", w.NS, "--wait=false")
	w.Eventually("the source goes", func() string {
		if !w.Gone("web") {
			return "it is there"
		}
		return ""
	})
	// A barrier in this namespace is not possible any more.
	other := newWorld(t)
	other.Barrier()
	if got := w.PinOf("web", "web"); got != a {
		t.Errorf("it is pinned to %s, want %s", got, a)
	}
	w.Kubectl("patch", "deployment/web", "--type=json", "-p", `[{"op":"remove","path":"/metadata/finalizers"}]`)
	w.Eventually("the namespace goes", func() string {
		err := cluster.Client.Get(w.Ctx, client.ObjectKey{Name: w.NS}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{}})
		if !apierrors.IsNotFound(err) {
			return fmt.Sprint(err)
		}
		return ""
	})
}

// The plugin knows an absence for what it is.
func TestPluginShowsAnAbsence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("web", "color", "A"), deployment("web", optional("web")))
	w.WaitPinned("web", "web", "color", "A")
	w.Kubectl("delete", "configmap", "web")
	w.waitAbsent("web", "web")
	w.plugin("status", "deployment/web", "--wait")
	history := w.plugin("history", "configmap/web")
	if last := history.rowOf("configmap/web", "2"); len(last) == 0 || last[0] != "*" || !strings.Contains(strings.Join(last, " "), "-color") {
		t.Errorf("history: %+v", history)
	}
	if got := w.plugin("diff", "configmap/web"); got.status != 1 || !strings.Contains(got.stdout, "-A") {
		t.Errorf("diff of the source: %+v", got)
	}
	if got := w.plugin("diff", "deployment/web"); got.status != 0 || got.stdout != "" {
		t.Errorf("diff of the workload: %+v", got)
	}
	if got := w.plugin("undo", "deployment/web"); got.status != 0 {
		t.Fatalf("undo: %+v", got)
	}
	w.WaitPinned("web", "web", "color", "A")
	w.WaitHeld("web", "web")
	if got := w.plugin("diff", "deployment/web"); got.status != 1 || !strings.Contains(got.stdout, "-A") {
		t.Errorf("diff of the workload: %+v", got)
	}
	if got := w.plugin("resume", "deployment/web"); got.status != 0 {
		t.Fatalf("resume: %+v", got)
	}
	w.waitAbsent("web", "web")
}

// A Job that is created without an optional source keeps to that: its retries must not read what appears meanwhile.
func TestAStandAloneJobPinsAnAbsence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if revision := w.standAloneJob(optional("web")); len(revision.Data) != 0 {
		t.Errorf("its revision has %v", revision.Data)
	}
}

// Rule 6: with advance: manual, a deletion waits like an edit. What is not there when the workload is made is pinned anyway.
func TestADeletionWaitsAsAnEditDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("web", "color", "A"), deployment("web", optional("web", "extra"), gen.Annotated(keys.Advance, "manual")))
	a := w.WaitPinned("web", "web", "color", "A")
	if got := w.PinOf("web", "extra"); got == (pin.Pin{}) {
		t.Error("what was not there has no pin")
	}
	w.Kubectl("delete", "configmap", "web")
	w.WaitEvent("WaitingToAdvance", "web", "configmap/web")
	w.Barrier()
	if got := w.PinOf("web", "web"); got != a {
		t.Fatalf("it moved to %s", got)
	}
	w.Kubectl("annotate", "deployment/web", keys.Advance+"=auto", "--overwrite")
	w.waitAbsent("web", "web")
}
