//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
)

// owned waits until exactly these Deployments and those of their ReplicaSets that pin a revision own it.
func (w *world) owned(revision string, deployments ...string) {
	w.Helper()
	w.eventually(fmt.Sprintf("%s owned by %q and their ReplicaSets", revision, deployments), func() string {
		var want []string
		for _, d := range deployments {
			want = append(want, string(w.deployment(d).UID))
			for _, rs := range w.replicaSets(d) {
				if strings.Contains(rs.Spec.Template.Annotations[keys.Pins], "="+revision+"@") {
					want = append(want, string(rs.UID))
				}
			}
		}
		obj := &corev1.ConfigMap{}
		if err := w.get(revision, obj); err != nil {
			return err.Error()
		}
		var got []string
		for _, o := range obj.OwnerReferences {
			if *o.Controller || *o.BlockOwnerDeletion {
				w.Fatalf("owner %s of %s controls it or blocks its owner", o.Name, revision)
			}
			got = append(got, string(o.UID))
		}
		slices.Sort(want)
		slices.Sort(got)
		if len(want) <= len(deployments) || !slices.Equal(want, got) {
			return fmt.Sprintf("owners %q, want %q", got, want)
		}
		return ""
	})
}

// collected waits until the garbage collector has dropped the ReplicaSets that are gone from a revision's owners.
func (w *world) collected(revision string) {
	w.Helper()
	w.eventually("owners of "+revision+" that are gone are dropped", func() string {
		obj := &corev1.ConfigMap{}
		if err := w.get(revision, obj); err != nil {
			return ""
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
func TestSharedSourceHasOneRevisionUntilItsLastDeploymentGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(configMap("shared", "k", "v"), deployment("one", envFrom("shared")), deployment("two", volume("shared")))
	pinned := w.waitPinned("one", "shared", "k", "v")
	w.waitPinned("two", "shared", "k", "v")
	if got := len(w.revisions("shared")); got != 1 {
		t.Fatalf("%d revisions, want 1", got)
	}
	w.owned(pinned.Revision, "one", "two")

	w.kubectl("delete", "deployment", "one")
	w.owned(pinned.Revision, "two")
	w.kubectl("delete", "deployment", "two")
	w.eventually("the revision goes with its last owner", func() string {
		if !w.gone(pinned.Revision) {
			return "still there"
		}
		return ""
	})
	w.barrier()
	if got := w.revisions("shared"); len(got) != 0 {
		t.Errorf("%s came back", got[0].Name)
	}
	if w.gone("shared") {
		t.Error("the source itself went")
	}
}

// Rules 13, 15.
func TestRevisionsGoWithTheirReplicaSets(t *testing.T) {
	t.Parallel()
	w, a := deployed(t, historyLimit(1))
	b := w.editTo("B")
	c := w.editTo("C")
	w.eventually("A goes with its ReplicaSet", func() string {
		if !w.gone(a.Revision) {
			return "still there"
		}
		return ""
	})
	w.owned(b.Revision, "web")
	w.owned(c.Revision, "web")
}

// Rules 5, 9: the last ReplicaSet of A goes in the moment in which A is pinned again.
func TestReturningToContentWhoseReplicaSetIsBeingPruned(t *testing.T) {
	t.Parallel()
	w, _ := deployed(t, historyLimit(0), annotated(keys.Settle, "0s"))
	for range 4 {
		w.editTo("B")
		w.editTo("A")
	}
	pinned := w.editTo("B")
	w.owned(pinned.Revision, "web")
	w.eventually("only the revision in use remains", func() string {
		if got := w.revisions("web"); len(got) != 1 || got[0].Name != pinned.Revision {
			return fmt.Sprint(len(got), " revisions")
		}
		return ""
	})
}

// Rule 12: while confrev is down, ReplicaSets come that it cannot attach, and those that it attached go.
func revisionInUseStays(m *member) {
	onlyWithPolicies(m.T)
	w, a := deployed(m.T, historyLimit(1))
	b := w.editTo("B")
	w.owned(b.Revision, "web")
	m.next()
	w.undo("web")
	for _, image := range []string{"app:2", "app:3", "app:4"} {
		w.kubectl("set", "image", "deployment/web", "app="+image)
		w.kubectl("rollout", "status", "deployment/web")
	}
	for _, rs := range w.replicaSets("web") {
		if rs.Spec.Template.Spec.Containers[0].Image == "app:1" {
			m.Fatalf("the ReplicaSets that confrev knew should be pruned, %s is not", rs.Name)
		}
	}
	w.collected(b.Revision)
	if w.gone(a.Revision) {
		m.Error("garbage collection took the revision that the pods use")
	}
	m.next()
	w.barrier()
	w.owned(a.Revision, "web")
}

// Rule 9.
func TestRevisionDeletedByHandWhileInUseComesBack(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	w.unguarded("delete", "configmap", a.Revision)
	w.eventually("the revision is back", func() string {
		if w.gone(a.Revision) {
			return "gone"
		}
		return ""
	})
	w.owned(a.Revision, "web")
	w.waitEvent("RevisionRecreated", "web", a.Revision)
	w.barrier()
	if got := w.pinOf("web", "web"); got != a {
		t.Errorf("the pin moved to %s", got)
	}
}

// Rule 9.
func TestLostRevisionIsReportedAndComesBackWithItsContent(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	w.editTo("B")
	w.undo("web")
	w.waitHeld("web", "web")
	w.unguarded("delete", "configmap", a.Revision)
	w.waitEvent("RevisionMissing", "web", a.Revision+" was deleted while in use")
	if got := w.pinOf("web", "web"); got != a {
		t.Errorf("the pin moved to %s; a lost revision is no reason to roll a held workload forward", got)
	}
	w.edit("web", "color", "A")
	w.eventually("the revision is back", func() string {
		if w.gone(a.Revision) {
			return "gone"
		}
		return ""
	})
}

// orphan makes a revision that nobody uses.
func orphan() *corev1.ConfigMap {
	return forged(trueName("orphan", "k", "v"), "orphan", hashOf("k", "v"), nil, "k", "v")
}

// Rule 13: no holder and no template names it, and it has no owner that would take it along.
func TestRevisionThatNobodyUsesGoesAfterTheGraceTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	orphan := orphan()
	w.create(orphan)
	created := time.Now()
	w.eventually("the orphan is deleted", func() string {
		if !w.gone(orphan.Name) {
			return "still there"
		}
		return ""
	})
	// The API server counts in whole seconds.
	if early := grace - time.Since(created); early > time.Second {
		t.Errorf("deleted %s before its grace time was over", early)
	}
}

// graceTimePasses waits until confrev has deleted a revision that nobody uses, made now: whatever it would delete of what
// was there before is gone too.
func (w *world) graceTimePasses() {
	w.Helper()
	orphan := orphan()
	w.create(orphan)
	w.eventually("the orphan is deleted", func() string {
		if !w.gone(orphan.Name) {
			return "still there"
		}
		return ""
	})
}

// Rule 13: what looks like a revision by half is a user's object.
func TestObjectsThatAreNotRevisionsAreNeverDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	labelled := configMap("labelled", "k", "v")
	labelled.Labels = map[string]string{keys.Source: "x"}
	w.create(labelled, configMap("plain", "k", "v"))
	w.graceTimePasses()
	if w.gone("labelled") || w.gone("plain") {
		t.Error("a user's object was deleted")
	}
}

// Rule 8: a name that somebody else took is left to them.
func TestNameTakenBySomethingElseIsNotOverwritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := configMap("web", "color", "A")
	taken := configMap(content.RevisionName("web", content.FromConfigMap(source).Hash(), 0), "mine", "keep")
	w.create(taken, source, deployment("web", envFrom("web")))
	pinned := w.waitPinned("web", "web", "color", "A")
	if pinned.Revision == taken.Name {
		t.Fatalf("pinned to %s, which is a user's object", taken.Name)
	}
	now := &corev1.ConfigMap{}
	w.must(w.get(taken.Name, now))
	if now.ResourceVersion != taken.ResourceVersion {
		t.Error("the user's object was changed")
	}
}

// Rule 12: other owners are kept.
func TestOwnersThatOthersAddedAreKept(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	w.owned(a.Revision, "web")
	other := configMap("other", "k", "v")
	w.create(other)
	w.unguarded("patch", "configmap", a.Revision, "--type=json", "-p", fmt.Sprintf(
		`[{"op":"add","path":"/metadata/ownerReferences/-","value":{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":%q}}]`, other.Name, other.UID))
	revision := &corev1.ConfigMap{}
	w.kubectl("set", "image", "deployment/web", "app=app:2")
	w.eventually("the new ReplicaSet owns the revision too", func() string {
		w.must(w.get(a.Revision, revision))
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
	w.create(configMap("stuck", "k", "v"))
	w.kubectl("patch", "configmap", "stuck", "--type=merge", "-p", `{"metadata":{"finalizers":["confrev.io/e2e"]}}`)
	w.kubectl("patch", "configmap", "web", "--type=merge", "-p", `{"metadata":{"finalizers":["confrev.io/e2e"]}}`)
	w.kubectl("patch", "deployment", "web", "--type=merge", "-p", `{"metadata":{"finalizers":["confrev.io/e2e"]}}`)
	w.must(cluster.Client.Delete(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns}}))
	w.edit("web", "color", "B")
	// From here on a revision is missing that the workload pins, and of which the source has no copy.
	w.waitGone(before.Revision)

	elsewhere := newWorld(t)
	elsewhere.barrier()
	elsewhere.barrier()
	for _, line := range errorsLogged(t, w.ns) {
		t.Errorf("logged: %s", line)
	}
	for _, resource := range []string{"deployment/web", "configmap/web", "configmap/stuck"} {
		w.kubectl("patch", resource, "--type=json", "-p", `[{"op":"remove","path":"/metadata/finalizers"}]`)
	}
}
