//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/gen"
)

// collected waits until the garbage collector has dropped the ReplicaSets that are gone from a revision's owners.
func (w *world) collected(revision string) {
	w.Helper()
	w.Eventually("owners of "+revision+" that are gone are dropped", func() string {
		obj := &corev1.ConfigMap{}
		if err := w.Get(revision, obj); apierrors.IsNotFound(err) {
			return ""
		} else if err != nil {
			return err.Error()
		}
		for _, o := range obj.OwnerReferences {
			if o.Kind == "ReplicaSet" {
				return o.Name + " is an owner still"
			}
		}
		return ""
	})
}

// Rules 12, 13.
func TestSharedSourceHasOneRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("shared", "k", "v"), deployment("one", envFrom("shared")), deployment("two", volume("shared")))
	pinned := w.WaitPinned("one", "shared", "k", "v")
	w.WaitPinned("two", "shared", "k", "v")
	if got := len(w.Revisions("shared")); got != 1 {
		t.Fatalf("%d revisions, want 1", got)
	}
	w.WaitOwned(pinned.Revision, "one", "two")

	w.Kubectl("delete", "deployment", "one")
	w.WaitOwned(pinned.Revision, "two")
	w.Kubectl("delete", "deployment", "two")
	w.waitGone(pinned.Revision)
	w.Barrier()
	if got := w.Revisions("shared"); len(got) != 0 {
		t.Errorf("%s came back", got[0].Name)
	}
	if w.Gone("shared") {
		t.Error("the source itself went")
	}
}

// Rules 13, 15.
func TestRevisionsGoWithTheirReplicaSets(t *testing.T) {
	t.Parallel()
	w, a := deployed(t, gen.HistoryLimit(1))
	b := w.editTo("B")
	c := w.editTo("C")
	w.waitGone(a.Revision)
	w.WaitOwned(b.Revision, "web")
	w.WaitOwned(c.Revision, "web")
}

// Rules 5, 9: the last ReplicaSet of A goes at the moment in which A is pinned again.
func TestReturnToContentDuringPrune(t *testing.T) {
	t.Parallel()
	w, _ := deployed(t, gen.HistoryLimit(0), gen.Annotated(keys.Settle, "0s"))
	for range 4 {
		w.editTo("B")
		w.editTo("A")
	}
	pinned := w.editTo("B")
	w.WaitOwned(pinned.Revision, "web")
	w.Eventually("only the revision in use remains", func() string {
		if got := w.Revisions("web"); len(got) != 1 || got[0].Name != pinned.Revision {
			return fmt.Sprint(len(got), " revisions")
		}
		return ""
	})
}

// Rule 12: while confrev is down, ReplicaSets come that it cannot attach, and those that it attached go.
func revisionInUseStays(m *member) {
	onlyWithPolicies(m.T)
	w, a := deployed(m.T, gen.HistoryLimit(1))
	b := w.editTo("B")
	w.WaitOwned(b.Revision, "web")
	m.next()
	w.Undo("web")
	for _, image := range []string{"app:2", "app:3", "app:4"} {
		w.Kubectl("set", "image", "deployment/web", "app="+image)
		w.Kubectl("rollout", "status", "deployment/web")
	}
	// The deployment controller prunes after it has said that a rollout is complete.
	w.Eventually("the ReplicaSets that confrev knew are pruned", func() string {
		for _, rs := range w.ReplicaSets("web") {
			if rs.Spec.Template.Spec.Containers[0].Image == "app:1" {
				return rs.Name
			}
		}
		return ""
	})
	w.collected(b.Revision)
	// It has lost the last owner that confrev knew, except for the workload.
	w.collected(a.Revision)
	if w.Gone(a.Revision) {
		m.Error("garbage collection took the revision that the pods use")
	}
	m.next()
	w.Barrier()
	w.WaitOwned(a.Revision, "web")
}

// Rule 9.
func TestRevisionDeletedByHandWhileInUseComesBack(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	w.unguarded("delete", "configmap", a.Revision)
	w.Eventually("the revision is back", func() string {
		if w.Gone(a.Revision) {
			return "gone"
		}
		return ""
	})
	w.WaitOwned(a.Revision, "web")
	w.WaitEvent("RevisionRecreated", "web", a.Revision)
	w.Barrier()
	if got := w.PinOf("web", "web"); got != a {
		t.Errorf("the pin moved to %s", got)
	}
}

// Rule 9.
func TestLostRevisionIsReportedAndRestored(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	w.editTo("B")
	w.Undo("web")
	w.WaitHeld("web", "web")
	w.unguarded("delete", "configmap", a.Revision)
	w.WaitEvent("RevisionMissing", "web", a.Revision+" was deleted while in use")
	if got := w.PinOf("web", "web"); got != a {
		t.Errorf("the pin moved to %s; a lost revision is no reason to roll a held workload forward", got)
	}
	w.Edit("web", "color", "A")
	w.Eventually("the revision is back", func() string {
		if w.Gone(a.Revision) {
			return "gone"
		}
		return ""
	})
}

// Rule 9: so is one that only a workload pins which opted out. No event of its source reaches that workload.
func TestLostRevisionOfAWorkloadThatOptedOutIsRestored(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	w.Kubectl("annotate", "deployment", "web", keys.Track+"=none", "--overwrite")
	w.Edit("web", "color", "B")
	w.Barrier()
	w.unguarded("delete", "configmap", a.Revision)
	w.WaitEvent("RevisionMissing", "web", a.Revision+" was deleted while in use")
	w.Edit("web", "color", "A")
	w.WaitEvent("RevisionRecreated", "web", a.Revision)
	if got := w.PinOf("web", "web"); got != a || w.Gone(a.Revision) {
		t.Errorf("pinned to %s, which is gone: %t", got, w.Gone(a.Revision))
	}
}

// orphan makes a revision that no one uses.
func orphan() *corev1.ConfigMap {
	return forged(trueName("orphan", "k", "v"), "orphan", hashOf("k", "v"), nil, "k", "v")
}

// Rule 12: a revision that was made for a workload that then could not be created has no owner. The next one that pins it must not become its only owner,
// since others may be about to pin it, too.
func TestTheNextUserOfARevisionWithoutOwners(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("shared", "k", "v"))
	w.quota("none", "count/deployments.apps=0")
	refused := deployment("refused", envFrom("shared"))
	refused.Namespace = w.NS
	if err := cluster.Client.Create(w.Ctx, refused); !apierrors.IsForbidden(err) {
		t.Fatalf("the Deployment: %v", err)
	}
	made := w.Revisions("shared")
	if len(made) != 1 || len(made[0].OwnerReferences) > 0 || !w.Gone(revision.AnchorName) {
		t.Fatalf("what it leaves: %+v", made)
	}
	// By no other process: confrev deletes the revision after the grace time.
	w.Must(cluster.Client.Delete(w.Ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "none"}}))
	w.Eventually("the API server knows that the quota is gone", func() string { return errorText(w.TryCreate(deployment("one", envFrom("shared")))) })
	if w.Gone(revision.AnchorName) {
		t.Error("the anchor does not own the revision")
	}
	w.WaitOwned(made[0].Name, "one")
}

// Rule 13: no holder and no template names it, and it has no owner that would take it along.
func TestUnusedRevisionIsDeletedAfterGrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	orphan := orphan()
	// Before the request, whose answer may take its time.
	created := time.Now()
	w.Create(orphan)
	w.waitGone(orphan.Name)
	// The API server counts in whole seconds.
	if early := grace - time.Since(created); early > time.Second {
		t.Errorf("deleted %s before its grace time was over", early)
	}
}

// graceTimePasses waits until confrev has deleted a revision that no one uses, made now: whatever it would delete of what
// was there before is gone too.
func (w *world) graceTimePasses() {
	w.Helper()
	// What was made within the same second is as old.
	w.AfterThisSecond()
	orphan := orphan()
	w.Create(orphan)
	w.waitGone(orphan.Name)
}

// Rule 13: what looks like a revision by half is a user's object.
func TestObjectsThatAreNotRevisionsAreNeverDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	labeled := configMap("labeled", "k", "v")
	labeled.Labels = map[string]string{keys.Source: "x"}
	w.Create(labeled, configMap("plain", "k", "v"))
	w.graceTimePasses()
	if w.Gone("labeled") || w.Gone("plain") {
		t.Error("a user's object was deleted")
	}
}

// Rule 8: a name that someone else took is left to them.
func TestNameTakenBySomethingElseIsNotOverwritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := configMap("web", "color", "A")
	taken := configMap(content.RevisionName("web", content.FromConfigMap(source).Hash(), 0), "mine", "keep")
	w.Create(taken, source, deployment("web", envFrom("web")))
	pinned := w.WaitPinned("web", "web", "color", "A")
	if pinned.Revision == taken.Name {
		t.Fatalf("pinned to %s, which is a user's object", taken.Name)
	}
	now := &corev1.ConfigMap{}
	w.Must(w.Get(taken.Name, now))
	if now.ResourceVersion != taken.ResourceVersion {
		t.Error("the user's object was changed")
	}
}

// Rule 12: other owners are kept.
func TestOwnersThatOthersAddedAreKept(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	w.WaitOwned(a.Revision, "web")
	other := configMap("other", "k", "v")
	w.Create(other)
	w.unguarded("patch", "configmap", a.Revision, "--type=json", "-p", fmt.Sprintf(
		`[{"op":"add","path":"/metadata/ownerReferences/-","value":{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":%q}}]`, other.Name, other.UID))
	revision := &corev1.ConfigMap{}
	w.Kubectl("set", "image", "deployment/web", "app=app:2")
	w.Eventually("the new ReplicaSet owns the revision too", func() string {
		w.Must(w.Get(a.Revision, revision))
		if len(revision.OwnerReferences) != 4 {
			return fmt.Sprint(len(revision.OwnerReferences), " owners")
		}
		return ""
	})
	if !slices.ContainsFunc(revision.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == other.UID }) {
		t.Error("the other owner is gone")
	}
}

func TestNamespaceBeingDeletedIsLeftAlone(t *testing.T) {
	t.Parallel()
	w, before := deployed(t)
	w.Create(configMap("stuck", "k", "v"))
	w.Kubectl("patch", "configmap", "stuck", "--type=merge", "-p", `{"metadata":{"finalizers":["confrev.io/e2e"]}}`)
	w.Kubectl("patch", "configmap", "web", "--type=merge", "-p", `{"metadata":{"finalizers":["confrev.io/e2e"]}}`)
	w.Kubectl("patch", "deployment", "web", "--type=merge", "-p", `{"metadata":{"finalizers":["confrev.io/e2e"]}}`)
	w.Must(cluster.Client.Delete(w.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.NS}}))
	w.Edit("web", "color", "B")
	// From here on a revision is missing that the workload pins, and of which the source has no copy.
	w.waitGone(before.Revision)

	elsewhere := newWorld(t)
	elsewhere.Barrier()
	elsewhere.Barrier()
	for _, line := range errorsLogged(t, w.NS) {
		t.Errorf("logged: %s", line)
	}
	for _, resource := range []string{"deployment/web", "configmap/web", "configmap/stuck"} {
		w.Kubectl("patch", resource, "--type=json", "-p", `[{"op":"remove","path":"/metadata/finalizers"}]`)
	}
}
