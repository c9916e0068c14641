//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/workload"
)

// subjectOf returns the subject of a name.
func subjectOf(name string) subject {
	for _, s := range subjects {
		if s.name == name {
			return s
		}
	}
	panic("no subject " + name)
}

// Trap: a StatefulSet waits for its stuck pod also when its template was rolled back (kubernetes#67250), so that its user
// deletes the pod. Then it must not go forward again.
func TestUndoOfStuckStatefulSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, before := w.launch(subjectOf("StatefulSet"), "web")
	value, _ := a.faulty()
	a.editBoth(value)
	w.Eventually("the last pod is stuck", func() string {
		if got := a.readers(); got[a.pinned().revisions()] != 1 || got[before.revisions()] != 1 {
			return fmt.Sprint(got)
		}
		return ""
	})
	stuck := a.pinned()
	if stuck == before {
		t.Fatal("not pinned to the faulty revision")
	}
	a.rollBack(a)
	a.waitHolds()
	a.replace(stuck.revisions())
	if got := a.reads("A"); got != before {
		t.Errorf("after the undo the pins are %s, want %s", got, before)
	}
	w.Barrier()
	a.allRead(before)
	if got := a.pinned(); got != before {
		t.Errorf("the pins moved to %s", got)
	}
	a.editTo("fixed")
}

// A Job, retries included, runs with the configuration of the moment in which it was created, and a change to
// configuration starts no Job.
func TestJobRetriesWithItsFirstConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.app(subjectOf("CronJob"), "web")
	// KWOK's Jobs complete at once, unless their pods are kept unready.
	value, release := a.faulty()
	a.createSources(value)
	a.createWorkload(map[string]string{keys.Track: "all"})
	first := a.reads(value)
	latest := first
	for _, value := range []string{"B", "C"} {
		a.editBoth(value)
		latest = a.waitPinnedTo(value)
		failed := a.living()[0].Name
		w.Kubectl("delete", "pod", failed, "--wait=false")
		w.Eventually("the Job tries again", func() string {
			pods := a.living()
			if len(pods) != 1 || pods[0].Name == failed {
				return fmt.Sprint(len(pods), " pods")
			}
			if got := readBy(&pods[0]); got != first.revisions() {
				w.Fatalf("the retry reads %s, want %s", got, first.revisions())
			}
			return ""
		})
	}
	release()
	w.Eventually("the Job completes", func() string {
		job := &batchv1.Job{}
		if w.Must(w.Get(a.job, job)); job.Status.Succeeded != 1 {
			return fmt.Sprint("status is ", job.Status.Conditions)
		}
		return ""
	})
	w.Barrier()
	if jobs := a.holders(); len(jobs) != 1 {
		t.Errorf("%d Jobs, want the one that was asked for", len(jobs))
	}
	// B was never used by a Job.
	a.waitMade(first, latest)
	a.waitOwned(first)
	w.Kubectl("delete", "job", a.job)
	a.waitMade(latest)
}

// Trap: the canary's end must not delete what it shares with stable.
func TestAbortedCanaryLeavesWhatItSharesWithStable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, stable := w.launch(subjectOf("RolloutStepwise"), "web")
	_, shared := stable.conf, stable.secret
	value, release := a.faulty()
	w.Edit(a.conf, sourceKey, value)
	var canary pins
	w.Eventually("a canary", func() string {
		canary = a.pinned()
		if got := a.readers(); got[canary.revisions()] == 0 || canary == stable {
			return fmt.Sprint(got)
		}
		return ""
	})
	if canary.secret != shared {
		t.Fatalf("the canary's Secret is %s, want the one of stable: %s", canary.secret, shared)
	}
	a.waitOwned(canary)
	a.argo("abort", "web")
	a.allRead(stable)
	// Tried again, the canary reads what it read before, and stable stays.
	a.argo("retry", "rollout", "web")
	w.Eventually("the canary again", func() string {
		if got := a.readers(); got[canary.revisions()] == 0 || got[stable.revisions()] == 0 || a.pinned() != canary {
			return fmt.Sprint(got)
		}
		return ""
	})
	a.argo("abort", "web")
	a.allRead(stable)

	for _, holder := range a.holders() {
		set, err := pin.Parse(a.pinsOf(a.kind.Holder, &holder))
		w.Must(err)
		if set[pin.Source{Kind: pin.ConfigMap, Name: a.conf}] == canary.conf {
			w.Must(client.IgnoreNotFound(cluster.Client.Delete(w.Ctx, &holder)))
			w.Eventually("the garbage collector has seen that the canary's ReplicaSet is gone", func() string {
				return a.ownedBy(stable, &holder)
			})
		}
	}
	w.Barrier()
	if w.secretGone(shared.Revision) {
		t.Error("the shared revision went")
	}
	a.replace(stable.revisions())
	a.allRead(stable)
	if complaint := a.brokenPromise(); complaint != "" {
		t.Error(complaint)
	}
	release()
	a.editTo("fixed")
}

// ownedBy complains while a holder that is gone owns a revision.
func (a *app) ownedBy(p pins, gone *unstructured.Unstructured) string {
	for _, owner := range a.owners(p) {
		if owner.UID == gone.GetUID() {
			return owner.Name + " is an owner still"
		}
	}
	return ""
}

// A canary may run an Experiment, whose ReplicaSets have the canary's template, pins and all. Their controller is no
// workload of confrev's, which has no right to read it; the ReplicaSets own the revisions anyway.
func TestPodsOfACanarysExperimentReadItsRevisions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := subjectOf("RolloutStepwise")
	s.spec = scaled(strategy("canary", map[string]any{"steps": []any{
		map[string]any{"experiment": map[string]any{
			"duration": "1h", "templates": []any{map[string]any{"name": "try", "specRef": "canary", "replicas": int64(1)}}}},
	}}))
	a, stable := w.launch(s, "web")
	a.editBoth("B")
	var canary pins
	var experiment unstructured.Unstructured
	w.Eventually("a pod of the experiment reads the new revisions", func() string {
		canary = a.pinned()
		for _, rs := range w.list(workload.ReplicaSet.GVK) {
			owner := metav1.GetControllerOf(&rs)
			if owner == nil || owner.Kind != "Experiment" || !strings.Contains(w.pinsOf(workload.ReplicaSet, &rs), canary.conf.Revision) {
				continue
			}
			for _, pod := range a.living() {
				if metav1.GetControllerOf(&pod).UID == rs.GetUID() {
					experiment = rs
					if got := readBy(&pod); canary == stable || got != canary.revisions() {
						return "reads " + got
					}
					return ""
				}
			}
		}
		return "no such pod"
	})
	w.Eventually("its ReplicaSet owns them", func() string {
		for _, owner := range a.owners(canary) {
			if owner.UID == experiment.GetUID() {
				return ""
			}
		}
		return fmt.Sprint(a.owners(canary))
	})
	a.waitOwned(canary)
	w.Barrier()
	for _, line := range errorsLogged(t, w.NS) {
		t.Errorf("logged: %s", line)
	}
}
