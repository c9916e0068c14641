//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
)

// forEachKind runs a test for every kind of workload, in a namespace of its own.
func forEachKind(t *testing.T, test func(w *world, s subject)) { forEachOf(t, subjects, test) }

// forEachOf does the same for some of them.
func forEachOf(t *testing.T, subjects []subject, test func(w *world, s subject)) {
	t.Parallel()
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(newWorld(t), s)
		})
	}
}

// Rules 1, 2, 4: the main job. Pods refer to their sources in every form.
func TestEveryKindRollsForwardAndBack(t *testing.T) { forEachKind(t, rollsForwardAndBack) }

func rollsForwardAndBack(w *world, s subject) {
	a, first := w.launch(s, "web")
	w.Barrier()
	generation, holders := a.templateObject().GetGeneration(), len(a.holders())

	second := a.editTo("B")
	w.Barrier()
	if got := a.templateObject().GetGeneration() - generation; got != 1 {
		w.Errorf("an edit of two sources at once changed the template %d times, want 1", got)
	}
	if got := len(a.holders()) - holders; got != 1 {
		w.Errorf("an edit made %d holders, want 1", got)
	}
	if complaint := a.brokenPromise(); complaint != "" {
		w.Error(complaint)
	}
	w.WaitEvent("RolledForward", "web", second.conf.Revision)
	w.WaitEvent("RolledForward", "web", second.secret.Revision)
	if a.rollBack == nil {
		return
	}

	a.rollBack(a)
	a.waitHolds()
	w.Barrier()
	if got := a.reads("A"); got != first {
		w.Errorf("after the undo the pins are %s, want %s", got, first)
	}
	third := a.editTo("C")
	if third.conf.Number <= second.conf.Number || third.secret.Number <= second.secret.Number {
		w.Errorf("C is %s, B was %s", third, second)
	}
	if note, ok := a.templateObject().GetAnnotations()[keys.Held]; ok {
		w.Errorf("the note %q should be gone", note)
	}
}

// unready is the list of the revisions whose pods are kept unready (hack/cluster/stages.yaml); the cluster has one.
var unready struct {
	sync.Mutex
	revisions []string
}

// faulty returns a value for the sources with which the workload's pods will not become ready until release is called. No
// other test's pods read a revision of that name.
func (a *app) faulty() (value string, release func()) {
	a.Helper()
	value = "faulty in " + a.NS
	return value, a.keepUnready(revisionOf(configMap(a.conf, sourceKey, value)))
}

// revisionOf returns the name that the revision of a ConfigMap will have.
func revisionOf(cm *corev1.ConfigMap) string {
	return content.RevisionName(cm.Name, content.FromConfigMap(cm).Hash(), 0)
}

// keepUnready keeps the pods that read a revision from becoming ready until release is called.
func (w *world) keepUnready(revision string) (release func()) {
	w.Helper()
	list := func(change func([]string) []string) error {
		unready.Lock()
		defer unready.Unlock()
		unready.revisions = change(unready.revisions)
		text, err := json.Marshal(append([]string{"none"}, unready.revisions...))
		if err != nil {
			return err
		}
		_, err = cluster.Kubectl(context.Background(), "patch", "stage", "pod-unready", "--type=json", "-p",
			`[{"op":"replace","path":"/spec/selector/matchExpressions/0/jq/values","value":`+string(text)+`}]`)
		return err
	}
	w.Must(list(func(all []string) []string { return append(all, revision) }))
	release = sync.OnceFunc(func() {
		err := list(func(all []string) []string {
			return slices.DeleteFunc(all, func(other string) bool { return other == revision })
		})
		if err != nil {
			w.Error(err)
		}
	})
	w.Cleanup(release)
	return release
}

// replace deletes the pods that read some revisions, as a spot node's end would, and waits until they are gone.
func (a *app) replace(revisions string) {
	a.Helper()
	for _, pod := range a.living() {
		if readBy(&pod) == revisions {
			a.Kubectl("delete", "pod", pod.Name, "--wait=true")
		}
	}
}

// The promise: a pod that replaces another in the middle of a rollout reads what its own holder was rolled out with. TestJobRetries has
// the same of Jobs.
func TestEveryKindKeepsThePromiseInMidRollout(t *testing.T) {
	rollsOut := slices.DeleteFunc(slices.Clone(subjects), func(s subject) bool { return s.start != nil })
	forEachOf(t, rollsOut, func(w *world, s subject) {
		a, before := w.launch(s, "web")
		if s.partly != nil {
			s.partly(a)
		}
		value, release := a.faulty()
		a.editBoth(value)
		var after pins
		w.Eventually("the rollout is half-way", func() string {
			// The pins may move after they were read, and before the pods are.
			if after = a.pinned(); after.conf == before.conf || after.secret == before.secret {
				return "not pinned again"
			}
			if got := a.readers(); got[before.revisions()] != s.old || got[after.revisions()] == 0 || len(got) != 2 {
				return fmt.Sprint(got)
			}
			return ""
		})
		if complaint := a.brokenPromise(); complaint != "" {
			w.Error(complaint)
		}

		a.replace(before.revisions())
		w.Eventually("the old pods are replaced by others like them", func() string {
			got := a.readers()
			if old := got[before.revisions()]; old != s.old && !s.renewed || old != 0 && s.renewed {
				return fmt.Sprint(got)
			}
			if got[after.revisions()] == 0 {
				return fmt.Sprint(got)
			}
			return a.brokenPromise()
		})
		if s.partly != nil {
			return
		}
		release()
		w.Eventually("the rollout continues", a.rollingOut)
		a.allRead(after)
	})
}

// Trap: partitions and OnDelete are the user's brakes.
func TestOnDeleteIsRespected(t *testing.T) {
	t.Parallel()
	for _, s := range subjects {
		if s.kind.Holder != workload.ControllerRevision {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a, before := w.launch(s, "web")
			a.patch(`{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}`)
			a.editBoth("B")
			w.Eventually("the new template is pinned", func() string {
				p := a.pinned()
				if p == before {
					return "not yet"
				}
				return a.notHolding(p, "B")
			})
			w.Barrier()
			a.allRead(before)
			a.Kubectl("delete", "pod", a.living()[0].Name, "--wait=true")
			w.Eventually("only the deleted pod reads the new revisions", func() string {
				got := a.readers()
				if got[a.pinned().revisions()] != 1 || got[before.revisions()] != s.pods-1 {
					return fmt.Sprint(got)
				}
				return a.brokenPromise()
			})
		})
	}
}

// Rule 5.
func TestEveryKindReturnsToEarlierContent(t *testing.T) {
	forEachKind(t, func(w *world, s subject) {
		a, first := w.launch(s, "web")
		second := a.editTo("B")
		again := a.editTo("A")
		if again.revisions() != first.revisions() || again.conf.Number <= second.conf.Number || again.secret.Number <= second.secret.Number {
			w.Errorf("A came back as %s, was %s, and B is %s", again, first, second)
		}
		a.waitMade(first, second)
		if a.rollBack == nil {
			return
		}
		a.rollBack(a)
		a.waitHolds()
		w.Barrier()
		if got := a.pinned(); got != second {
			w.Errorf("undo after A→B→A went to %s, want %s", got, second)
		}
	})
}

// Rules 12, 13, 15.
func TestEveryKindLetsRevisionsGo(t *testing.T) {
	forEachKind(t, func(w *world, s subject) {
		a := w.app(s, "web")
		a.createSources("A")
		for _, obj := range a.objects(map[string]string{keys.Track: "all"}) {
			if obj.GroupVersionKind() == s.kind.GVK {
				// From the start, since a StatefulSet's cannot be changed before Kubernetes 1.33.
				put(obj.Object, s.history, s.kept)
			}
			a.Create(obj)
		}
		a.reads("A")
		second, third := a.editTo("B"), a.editTo("C")
		a.waitMade(second, third)
		a.waitOwned(second)
		a.waitOwned(third)
		for _, owner := range a.owners(third) {
			if *owner.Controller || *owner.BlockOwnerDeletion {
				w.Errorf("owner %s %s controls the revision or blocks its owner", owner.Kind, owner.Name)
			}
		}
		a.remove()
		a.waitMade()
		w.Barrier()
		if got := a.made(); len(got) > 0 {
			w.Errorf("%q came back", got)
		}
		if w.Gone(a.conf) {
			w.Error("the source itself went")
		}
	})
}

// Rule 12: a revision goes with the last of its users, of whatever kinds they are.
func TestOneSecretOfEveryKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(secret("shared", corev1.SecretTypeOpaque, sourceKey, "A"))
	var apps []*app
	for i, s := range subjects {
		a := w.app(s, fmt.Sprintf("web-%d", i))
		a.secret = "shared"
		w.Create(configMap(a.conf, sourceKey, "A"))
		a.createWorkload(map[string]string{keys.Track: "all"})
		apps = append(apps, a)
	}
	shared := map[string]bool{}
	for _, a := range apps {
		p := a.reads("A")
		a.waitOwned(p)
		shared[p.secret.String()] = true
	}
	if len(shared) != 1 {
		w.Fatalf("the shared Secret has revisions %v, want one", shared)
	}
	last := apps[0]
	revision := last.pinned().secret.Revision
	for _, a := range apps[1:] {
		a.remove()
	}
	w.Eventually("only the last workload is left", func() string {
		for _, a := range apps[1:] {
			if left := len(a.living()); left > 0 {
				return fmt.Sprintf("%d pods of %s", left, a.name)
			}
		}
		// How many templates of its own pin it depends on whether it was pinned to both sources at once.
		for _, owner := range last.owners(last.pinned()) {
			if owner.Name != last.name && !strings.HasPrefix(owner.Name, last.name+"-") {
				return "owned by " + owner.Kind + " " + owner.Name
			}
		}
		return ""
	})
	w.Barrier()
	w.Must(w.Get(revision, &corev1.Secret{}))
	last.remove()
	w.Eventually("the revision goes with the last", func() string {
		if !w.secretGone(revision) {
			return "still there"
		}
		return ""
	})
}

// While confrev is down, pods start with their pins and an undo is an undo; what was edited meanwhile is one rollout.
func kindWhileConfrevIsDown(m *member, s subject) {
	onlyWithPolicies(m.T)
	a, first := newWorld(m.T).launch(s, "web")
	second := a.editTo("B")
	a.waitOwned(second)

	m.next()
	if a.start != nil {
		a.start(a)
	} else {
		a.Kubectl("delete", "pod", "-l", "app="+a.name, "--wait=true")
	}
	a.allRead(second)
	if a.rollBack != nil {
		a.rollBack(a)
		a.reads("A")
	}

	m.next()
	if a.rollBack != nil {
		a.waitHolds()
	}
	a.Barrier()
	if got := a.pinned(); a.rollBack != nil && got != first {
		m.Errorf("the pins are %s, want %s", got, first)
	}
	generation := a.templateObject().GetGeneration()

	m.next()
	for _, value := range []string{"C", "D"} {
		a.editBoth(value)
	}
	m.next()
	a.reads("D")
	if got := a.templateObject().GetGeneration() - generation; got != 1 {
		m.Errorf("the edits made while confrev was down changed the template %d times, want 1", got)
	}
}
