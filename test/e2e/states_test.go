//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"testing"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/waiting"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// confrev_workloads has each workload of a namespace once, in the state that docs/metrics.md says, and nothing of those that are gone.
// read reads the metrics, which have namespaces only if they are secure.
func (w *world) wantWorkloadsCountedByState(read func() (env.Metrics, error)) {
	w.Helper()
	w.Create(configMap("web", "color", "A"), configMap("asked", "k", "1"), configMap("slow", "k", "1"), configMap("other", "k", "1"),
		deployment("web", envFrom("web")),
		deployment("asked", envFrom("asked"), gen.Annotated(keys.Advance, "manual")),
		deployment("slow", envFrom("slow"), gen.Annotated(keys.Settle, "10m")),
		deployment("restarting", inMode(optin.Restart), envFrom("other")),
		deployment("untracked", envFrom("other"), gen.Tracking("none")),
		deployment("lost", envFrom("absent")))
	a := w.WaitPinned("web", "web", "color", "A")
	w.WaitPinned("asked", "asked", "k", "1")
	w.WaitPinned("slow", "slow", "k", "1")
	w.waitStates(read, map[string]int{"current": 4, "missing": 1})
	// A revision is no source, so what it has now cannot be known.
	w.Create(deployment("strange", envFrom(a.Revision)))
	w.waitStates(read, map[string]int{"current": 4, "missing": 1, "unknown": 1})

	w.editTo("B")
	w.Undo("web")
	w.Edit("asked", "k", "2")
	w.Edit("slow", "k", "2")
	w.waitStates(read, map[string]int{"current": 1, "missing": 1, "held": 1, "waiting": 1, "behind": 1, "unknown": 1})

	w.Kubectl("annotate", "deployment/web", keys.Track+"=none", "--overwrite")
	w.Kubectl("delete", "deployment/lost", "deployment/slow", "deployment/strange")
	w.waitStates(read, map[string]int{"current": 1, "waiting": 1})
}

// waitStates waits until confrev counts so many of the namespace's Deployments in these states, and none in others.
func (w *world) waitStates(read func() (env.Metrics, error), want map[string]int) {
	w.Helper()
	w.Eventually("states of workloads", func() string {
		metrics, err := read()
		if err != nil {
			return err.Error()
		}
		got := map[string]int{}
		for _, state := range []string{"missing", "held", "waiting", "unknown", "behind", "current"} {
			if n := metrics.Sum("confrev_workloads", "namespace", w.NS, "workload", "deployment", "state", state); n > 0 {
				got[state] = int(n)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Sprintf("they are %v, want %v", got, want)
		}
		return ""
	})
}

// wantWaitingCountedByReason checks what confrev_workloads says of workloads that wait because of how others take a change, each for a reason
// of its own. The reasons Manual, OnDeploy, Frozen and Window are settings of one workload.
func wantWaitingCountedByReason(t *testing.T, read func() (env.Metrics, error)) {
	earlier, w := newStages(t)
	settings := map[string]map[string]string{
		"wave": {keys.Steps: "1"}, "budget": {keys.MaxRolling: "1"}, "baking": {keys.Steps: "1", keys.Bake: "1h"}, "stopped": {keys.Steps: "1"}, "stage": nil,
	}
	for name, annotations := range settings {
		source := configMap(name, "k", "1")
		if source.Annotations = annotations; name != "stage" {
			source.Annotations[keys.After] = "none"
		}
		w.Create(source, deployment(name+"-a", envFrom(name)), deployment(name+"-b", envFrom(name)))
	}
	for name := range settings {
		for _, member := range []string{name + "-a", name + "-b"} {
			w.WaitPinned(member, name, "k", "1")
			w.areRolledOut(member)
		}
	}
	w.comesAfter(earlier)
	w.Edit("baking", "k", "2")
	w.WaitPinned("baking-a", "baking", "k", "2")
	w.areRolledOut("baking-a")
	end := w.noMorePods()
	for _, name := range []string{"wave", "budget", "stopped", "stage"} {
		w.Edit(name, "k", "2")
	}
	w.Eventually("stopped-a takes the change", func() string {
		if p := w.PinOf("stopped-a", "stopped"); p.Number != 2 {
			return p.String()
		}
		return ""
	})
	w.WaitEvent("WaitingToAdvance", "stopped-b", "configmap/stopped")
	w.confrev("stop", "configmap/stopped").ends(0)
	w.Eventually("each reason is counted", func() string {
		metrics, err := read()
		if err != nil {
			return err.Error()
		}
		got := map[waiting.Reason]int{}
		for _, reason := range waiting.Reasons {
			if n := metrics.Sum("confrev_workloads", "namespace", w.NS, "workload", "deployment", "state", "waiting", "reason", string(reason)); n > 0 {
				got[reason] = int(n)
			}
		}
		want := map[waiting.Reason]int{waiting.Wave: 1, waiting.Budget: 1, waiting.Baking: 1, waiting.Stopped: 1, waiting.Stage: 2}
		if !maps.Equal(got, want) {
			return fmt.Sprintf("they are %v, want %v", got, want)
		}
		return ""
	})
	end()
}
