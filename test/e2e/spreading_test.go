//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/test/gen"
)

// fleet creates a ConfigMap named shared, and Deployments of the given names that use it and have rolled it out.
func (w *world) fleet(settings map[string]string, names ...string) (first pin.Pin) {
	w.Helper()
	source := configMap("shared", "color", "A")
	source.Annotations = settings
	w.Create(source)
	for _, name := range names {
		w.Create(deployment(name, envFrom("shared")))
	}
	for _, name := range names {
		first = w.WaitPinned(name, "shared", "color", "A")
	}
	w.areRolledOut(names...)
	return first
}

// areRolledOut waits until Deployments are rolled out, as their controller says.
func (w *world) areRolledOut(names ...string) {
	w.Helper()
	w.Eventually("they are rolled out", func() string {
		for _, name := range names {
			d := w.Deployment(name)
			done := slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Reason == "NewReplicaSetAvailable" })
			if !done || d.Status.ObservedGeneration < d.Generation {
				return name + " is not"
			}
		}
		return ""
	})
}

// have returns those Deployments that have another pin than before.
func (w *world) have(before pin.Pin, names ...string) (have []string) {
	w.Helper()
	for _, name := range names {
		if w.PinOf(name, "shared") != before {
			have = append(have, name)
		}
	}
	return have
}

// allHave waits until all of some Deployments have another pin than before.
func (w *world) allHave(before pin.Pin, names ...string) {
	w.Helper()
	w.Eventually("all have the change", func() string {
		if have := w.have(before, names...); len(have) < len(names) {
			return fmt.Sprintf("only %v have it", have)
		}
		return ""
	})
}

// spreads returns what status says of ConfigMap shared.
func (w *world) spreads() view.SpreadStatus { return w.spreadOf("shared") }

// spreadOf returns what status says of a ConfigMap.
func (w *world) spreadOf(source string) view.SpreadStatus {
	w.Helper()
	var list view.SpreadList
	w.Must(json.Unmarshal([]byte(w.plugin("status", "configmap/"+source, "-o", "json").stdout), &list))
	return list.Items[0]
}

// stages returns the stage of each member: "a:Vouched b:Waiting".
func stages(s view.SpreadStatus) string {
	var all []string
	for _, wave := range s.Waves {
		for _, m := range wave.Members {
			all = append(all, strings.TrimPrefix(m.Workload, "deployment/")+":"+string(m.Stage))
		}
	}
	return strings.Join(all, " ")
}

// waitsInVain checks that a user who waits for the change is told at once that this takes a person.
func (w *world) waitsInVain(status int, why string) {
	w.Helper()
	got := w.plugin("status", "configmap/shared", "--wait", "--timeout="+patience.String())
	if line := strings.TrimSpace(got.stderr); got.status != status || !strings.Contains(line, why) || !strings.Contains(line, "this does not end without action") {
		w.Errorf("status %d, want %d: %s", got.status, status, line)
	}
}

// noMorePods keeps Deployments from rolling anything out: no pod can be created.
func (w *world) noMorePods() (end func()) {
	w.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "full"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	w.Create(quota)
	w.Eventually("the API server refuses pods", func() string {
		pod := w.runIn("", "", "kubectl", "run", "probe", "--image=app:1", "--dry-run=server")
		if !strings.Contains(pod.stderr, "exceeded quota") {
			return pod.stdout + pod.stderr
		}
		return ""
	})
	return func() { w.Kubectl("delete", "resourcequota", "full") }
}

// Rule 37: a change goes through its waves one after the other, each of which stays healthy for a while before the next begins.
func TestWaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := []string{"a", "b", "c", "d"}
	first := w.fleet(map[string]string{keys.Steps: "1,50%", keys.Bake: "3s"}, names...)
	w.Kubectl("annotate", "deployment/d", keys.Wave+"=-5")
	w.Kubectl("label", "deployment/c", keys.Wave+"=0")
	w.Barrier()
	w.Edit("shared", "color", "B")
	w.WaitEvent("WaitingToAdvance", "a", "configmap/shared changed, and waits for its turn (annotation confrev.io/steps of configmap/shared; "+
		"how far it is: kubectl confrev status configmap/shared -n "+w.NS+")")
	w.allHave(first, names...)
	at := map[string]time.Time{}
	for _, name := range names {
		note, ok := spread.ParseAdvance(w.Deployment(name).Annotations[keys.Advanced])
		if !ok || note.To[gen.Source("configmap/shared")] != w.PinOf(name, "shared") || note.From[gen.Source("configmap/shared")] != first || note.Unwell {
			t.Errorf("%s notes %+v", name, note)
		}
		at[name] = note.At
	}
	// The wave that is stated comes first, then the steps, in the order of names.
	for i, order := range [][2]string{{"d", "a"}, {"a", "b"}, {"a", "c"}} {
		if gap := at[order[1]].Sub(at[order[0]]); gap < 3*time.Second {
			t.Errorf("%d: %s went %s after %s, which had to bake", i, order[1], gap, order[0])
		}
	}
	w.Eventually("it is complete", func() string {
		if s := w.spreads(); s.State != view.Complete || s.Vouched != 4 || len(s.Waves) != 3 {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	w.confrev("status", "configmap/shared").says("configmap/shared: revision 2 is Complete, 4 of 4 vouch for it, wave 3 of 3", "configmap/shared   1      deployment/d   Vouched")
}

// Rule 37: while a wave does not get well, no one else gets the change, whatever happens to them; its repair gets in, and begins with the first
// wave.
func TestABrokenWaveEndsTheSpread(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := []string{"a", "b", "c"}
	first := w.fleet(map[string]string{keys.Steps: "1", keys.MaxRolling: "1"}, names...)
	end := w.noMorePods()
	w.Edit("shared", "color", "broken")
	w.allHave(first, "a")
	w.Eventually("it says so", func() string {
		if s := w.spreads(); s.State != view.Underway || stages(s) != "a:Rolling b:Waiting c:Waiting" || s.InFlight != 1 || s.MaxRolling != 1 {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	w.confrev("status", "configmap/shared").ends(3, "revision 2 is Underway, 0 of 3 vouch for it, wave 1 of 2, 1 of at most 1 in the middle of it")
	// A restart is no reason, and neither is a deploy: it is told.
	w.Kubectl("rollout", "restart", "deployment/b")
	if warned := w.runIn("", "", "kubectl", "set", "image", "deployment/c", "app=app:2").stderr; !strings.Contains(warned, "configmap/shared changed, and waits for its turn") {
		t.Errorf("the deploy is told %q", warned)
	}
	w.Barrier()
	if have := w.have(first, names...); !slices.Equal(have, []string{"a"}) {
		t.Errorf("%v have the change", have)
	}

	// The repair gets in although a is stuck on the broken content and takes up the only place.
	w.Edit("shared", "color", "repaired")
	w.Eventually("a gets the repair", func() string {
		if p := w.PinOf("a", "shared"); p.Number != 3 {
			return p.String()
		}
		return ""
	})
	w.Barrier()
	if have := w.have(first, "b", "c"); len(have) > 0 {
		t.Errorf("%v have the repair before a vouches for it", have)
	}
	end()
	w.allHave(first, names...)
	if revisions := w.Revisions("shared"); len(revisions) != 3 {
		t.Errorf("there are %d revisions", len(revisions))
	}
	for _, name := range []string{"b", "c"} {
		if p := w.PinOf(name, "shared"); p.Number != 3 {
			t.Errorf("%s got %s", name, p)
		}
	}
}

// Rule 39: a change that is stopped goes no further, not even in a deploy, until it is resumed or there is another one.
func TestAStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.fleet(map[string]string{keys.Steps: "1"}, "a", "b")
	end := w.noMorePods()
	w.Edit("shared", "color", "B")
	w.allHave(first, "a")
	w.confrev("stop", "configmap/shared").says("configmap/shared stopped", "revision 2 of configmap/shared goes no further; 1 of 2 workloads have it, and keep it")
	w.confrev("stop", "configmap/shared").says("unchanged", "is stopped already")
	end()
	w.WaitEvent("ChangeStopped", "b", "configmap/shared changed, and the change was stopped: it waits until a person resumes it (annotation confrev.io/stop of configmap/shared)")
	w.areRolledOut("a")
	w.confrev("status", "configmap/shared").ends(4, "is Stopped", "kubectl confrev resume configmap/shared")
	w.waitsInVain(4, "configmap/shared is Stopped: to continue: kubectl confrev resume configmap/shared")
	w.confrev("advance", "configmap/shared", "--past-wave", "1").fails(1, "is stopped; to continue: kubectl confrev resume configmap/shared")
	if warned := w.runIn("", "", "kubectl", "set", "image", "deployment/b", "app=app:2").stderr; !strings.Contains(warned, "the change was stopped") {
		t.Errorf("the deploy is told %q", warned)
	}
	w.Barrier()
	if have := w.have(first, "a", "b"); !slices.Equal(have, []string{"a"}) {
		t.Errorf("%v have the change", have)
	}
	w.confrev("resume", "configmap/shared").says("revision 2 of configmap/shared continues")
	w.confrev("resume", "configmap/shared").says("unchanged", "is not stopped")
	w.allHave(first, "a", "b")

	// The stop of one content is none of another.
	w.confrev("stop", "configmap/shared").says("2 of 2 workloads have it")
	w.Edit("shared", "color", "C")
	w.Eventually("the next change continues", func() string {
		for _, name := range []string{"a", "b"} {
			if p := w.PinOf(name, "shared"); p.Number != 3 {
				return name + " has " + p.String()
			}
		}
		return ""
	})
}

// A stop needs no other setting.
func TestAStopOfAChangeThatDoesNotSpread(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.fleet(nil, "a")
	w.Kubectl("annotate", "deployment/a", keys.Settle+"=1h")
	w.Edit("shared", "color", "B")
	w.confrev("stop", "configmap/shared").says("goes no further; 0 of 1 workloads have it")
	w.Barrier()
	w.Kubectl("annotate", "deployment/a", keys.Settle+"-")
	w.WaitEvent("ChangeStopped", "a", "configmap/shared changed")
	w.Barrier()
	if have := w.have(first, "a"); len(have) > 0 {
		t.Errorf("%v have the change", have)
	}
	w.confrev("advance", "deployment/a").says("unchanged", "waits at revision 1 until a person resumes it", "to continue: kubectl confrev resume configmap/shared")
	// It is said before anything else that the workload waits for, and a person who advances that workload does not get past it either.
	w.Kubectl("annotate", "deployment/a", keys.Advance+"=manual")
	w.Barrier()
	w.confrev("advance", "deployment/a").says("unchanged", "to continue: kubectl confrev resume configmap/shared")
	w.Kubectl("annotate", "deployment/a", keys.Advance+"-")
	w.confrev("resume", "configmap/shared")
	w.allHave(first, "a")
}

// Rule 38: no more workloads than may are in the middle of a change.
func TestABudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var names []string
	for i := range 8 {
		names = append(names, fmt.Sprintf("app-%d", i))
	}
	first := w.fleet(map[string]string{keys.MaxRolling: "2", keys.Bake: "1s"}, names...)
	c, endConduct := w.conduct("shared", first, 2)
	w.Edit("shared", "color", "B")
	w.allHave(first, names...)
	w.areRolledOut(names...)
	endConduct()
	// The revision notes in the end that all have vouched.
	taken := slices.DeleteFunc(slices.Clone(c.writes), func(write string) bool { return !strings.Contains(write, " takes ") })
	if c.most == 0 || len(taken) != len(names) {
		t.Errorf("at most %d were in the middle of the change; confrev wrote %q", c.most, c.writes)
	}
}

// Rule 39: a person lets a wave pass that no one can vouch for.
func TestAWaveThatCannotVouch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := configMap("shared", "color", "A")
	source.Annotations = map[string]string{keys.Bake: "1s"}
	w.Create(source, deployment("idle", envFrom("shared"), gen.Replicas(0), gen.Annotated(keys.Wave, "1")), deployment("web", envFrom("shared"), gen.Annotated(keys.Wave, "2")))
	first := w.WaitPinned("web", "shared", "color", "A")
	w.WaitPinned("idle", "shared", "color", "A")
	w.areRolledOut("web", "idle")
	w.Edit("shared", "color", "B")
	w.allHave(first, "idle")
	w.Eventually("it says so", func() string {
		if s := w.spreads(); s.State != view.Unproven || stages(s) != "idle:Idle web:Waiting" {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	w.waitsInVain(3, "no one in wave 1 can show whether it is good; to continue: kubectl confrev advance configmap/shared --past-wave 1")
	w.confrev("advance", "configmap/shared", "--past-wave", "3").fails(1, "revision 2 of configmap/shared has 2 waves")
	w.confrev("advance", "deployment/web", "--past-wave", "1").fails(1, "--past-wave is for a source")
	w.confrev("advance", "configmap/shared").fails(1, "want --past-stage, or --past-wave with the number of a wave")
	w.confrev("advance", "configmap/shared", "--past-wave", "1").says("wave 1 of revision 2 of configmap/shared counts as passed")
	w.allHave(first, "idle", "web")
}

// Rules 37 and 39: a wave keeps its number when the members of the one before it leave, so a person can let it pass.
func TestAWaveThatCannotVouchAfterOneHasLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := configMap("shared", "color", "A")
	source.Annotations = map[string]string{keys.Bake: "1s"}
	w.Create(source, deployment("gone", envFrom("shared")), deployment("idle", envFrom("shared"), gen.Replicas(0), gen.Annotated(keys.Wave, "1")),
		deployment("web", envFrom("shared"), gen.Annotated(keys.Wave, "2")))
	first := w.WaitPinned("web", "shared", "color", "A")
	w.WaitPinned("gone", "shared", "color", "A")
	w.WaitPinned("idle", "shared", "color", "A")
	w.areRolledOut("gone", "web", "idle")
	w.Edit("shared", "color", "B")
	w.allHave(first, "gone", "idle")
	w.Kubectl("delete", "deployment/gone")
	w.waitsInVain(3, "no one in wave 2 can show whether it is good; to continue: kubectl confrev advance configmap/shared --past-wave 2")
	w.confrev("advance", "configmap/shared", "--past-wave", "1").says("wave 1 of revision 2 of configmap/shared has passed already")
	w.confrev("advance", "configmap/shared", "--past-wave", "2").says("wave 2 of revision 2 of configmap/shared counts as passed")
	w.allHave(first, "web")
}

// Rule 36: a setting that cannot be read lets nothing through, and says so; first pins are given.
func TestASpreadingThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.fleet(map[string]string{keys.MaxRolling: "0"}, "a")
	w.Edit("shared", "color", "B")
	w.WaitEvent("InvalidSpreading", "a", `annotation confrev.io/max-rolling of configmap/shared: "0" is not an amount: want a number such as 5, or a share such as 10%`)
	w.WaitEvent("WaitingToAdvance", "a", "waits until annotation confrev.io/max-rolling of configmap/shared is corrected")
	w.confrev("status", "configmap/shared").ends(3, "is Underway", "waits until annotation confrev.io/max-rolling of configmap/shared is corrected")
	w.Barrier()
	if have := w.have(first, "a"); len(have) > 0 {
		t.Errorf("%v have the change", have)
	}
	w.Kubectl("annotate", "--overwrite", "configmap/shared", keys.MaxRolling+"=1")
	w.allHave(first, "a")
}

// isAt waits until a workload, alone with its source, is at a stage of the change for a reason that contains why.
func (a *app) isAt(want spread.Stage, why string) {
	a.Helper()
	a.Eventually("it is "+string(want), func() string {
		var list view.SpreadList
		a.pluginJSON(&list, "status", "configmap/"+a.conf)
		for _, wave := range list.Items[0].Waves {
			for _, m := range wave.Members {
				if m.Workload == a.templated.Resource()+"/"+a.name && m.Stage == want && strings.Contains(m.Message, why) {
					return ""
				}
			}
		}
		return fmt.Sprintf("%+v", list.Items[0])
	})
}

// Rule 37, the table of members: every kind vouches for a change, as its own controller shows it. Where that takes a person, status says what.
func TestEveryKindVouches(t *testing.T) {
	forEachKind(t, func(w *world, s subject) {
		a, _ := w.launch(s, "web")
		w.Kubectl("annotate", "configmap/"+a.conf, keys.MaxRolling+"=1", keys.Bake+"=1s")
		a.Edit(a.conf, sourceKey, "B")
		switch s.name {
		case aStepwiseCanary.name:
			a.isAt(spread.Parked, "Paused: CanaryPauseStep")
			w.argo("promote", "web", "--full")
		case aCronJob.name:
			a.isAt(spread.Idle, "its next Job is to come")
			startJob(a)
		}
		a.isAt(spread.Vouched, "")
	})
}

// Rule 36: without a setting of the source or its namespace, no workload can make others wait, whatever it says of itself.
func TestAWorkloadAloneMakesNoOneWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(deployment("first", envFrom("shared"), gen.Annotated(keys.Wave, "-1000"), gen.Annotated(keys.Deadline, "1000h"), gen.Annotated(keys.Crashes, "1")))
	before := w.fleet(nil, "a", "b")
	end := w.noMorePods()
	w.Edit("shared", "color", "B")
	w.allHave(before, "first", "a", "b")
	end()
	w.areRolledOut("first", "a", "b")
}
