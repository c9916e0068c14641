package reconcile

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/waiting"
	"confrev.io/confrev/internal/workload"
)

func TestStateThatMostNeedsAttention(t *testing.T) {
	decided := func(verdicts ...plan.Verdict) plan.Plan {
		var p plan.Plan
		for _, verdict := range verdicts {
			p.Decisions = append(p.Decisions, plan.Decision{Verdict: verdict})
		}
		return p
	}
	for want, look := range map[state]rollout.Assessment{
		"":           {Pins: decided(plan.Held)},
		stateCurrent: {Follows: true, Pins: decided(plan.InSync, plan.Absent)},
		stateUnknown: {Follows: true, Pins: decided(plan.InSync, plan.Unknown)},
		stateWaiting: {Follows: true, Pins: decided(plan.Unknown, plan.Waiting)},
		stateHeld:    {Follows: true, Pins: decided(plan.Waiting, plan.InSync), Hashes: decided(plan.Held)},
		stateMissing: {Follows: true, Pins: decided(plan.Held, plan.KeyMissing)},
	} {
		if got := stateOf(look); got != want {
			t.Errorf("%v %v is %q, want %q", look.Pins.Decisions, look.Hashes.Decisions, got, want)
		}
	}
	if got := stateOf(rollout.Assessment{Follows: true, Hashes: decided(plan.SourceMissing)}); got != stateMissing {
		t.Errorf("a missing source is %q", got)
	}
}

// The Deployment that a Rollout refers to is counted, and the Rollout is not, whatever it was before.
func TestRolloutThatTurnsToWorkloadRefIsNotCounted(t *testing.T) {
	referring := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"workloadRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
	}}}
	referring.SetGroupVersionKind(workload.Rollout.GVK)
	referring.SetNamespace("a")
	referring.SetName("web")
	w := newWorld(referring, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	w.Kind = workload.Rollout
	name := client.ObjectKeyFromObject(referring)
	w.States.set(stated{w.Kind.Resource(), name}, standing{state: stateHeld})
	if _, err := w.Reconcile(t.Context(), reconcile.Request{NamespacedName: name}); err != nil {
		t.Fatal(err)
	}
	if n := testutil.CollectAndCount(w.States); n != 0 {
		t.Errorf("%d series are left of it", n)
	}
}

func TestWorkloadsAreCountedByState(t *testing.T) {
	s, all := NewStates(true), NewStates(false)
	at := func(kind, namespace, name string) stated {
		return stated{kind, types.NamespacedName{Namespace: namespace, Name: name}}
	}
	all.set(at("deployment", "a", "one"), standing{state: stateHeld})
	all.set(at("deployment", "b", "one"), standing{state: stateHeld})
	s.set(at("deployment", "a", "one"), standing{state: stateHeld})
	s.set(at("deployment", "a", "two"), standing{state: stateHeld})
	s.set(at("deployment", "a", "two"), standing{state: stateCurrent})
	s.set(at("deployment", "a", "three"), standing{state: stateCurrent})
	s.set(at("daemonset", "a", "one"), standing{state: stateCurrent})
	s.set(at("deployment", "gone", "one"), standing{state: stateMissing})
	s.set(at("deployment", "gone", "one"), standing{})
	const head = "# HELP confrev_workloads Workloads that opted in, by how far they are with their sources and, if they wait, what for.\n# TYPE confrev_workloads gauge\n"
	want := head + `confrev_workloads{namespace="a",reason="",state="current",workload="daemonset"} 1
confrev_workloads{namespace="a",reason="",state="current",workload="deployment"} 2
confrev_workloads{namespace="a",reason="",state="held",workload="deployment"} 1
`
	if err := testutil.CollectAndCompare(s, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	s.Forget("a")
	if n := testutil.CollectAndCount(s); n != 0 {
		t.Errorf("%d series are left of a namespace that is not followed", n)
	}
	// Prometheus takes an empty label for none.
	want = head + `confrev_workloads{namespace="",reason="",state="held",workload="deployment"} 2` + "\n"
	if err := testutil.CollectAndCompare(all, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// What a workload waits for changes with what others do, without a look at the workload itself.
func TestAnotherReasonOfOneThatWaitsForItsTurn(t *testing.T) {
	for name, test := range map[string]struct{ before, want standing }{
		"for its turn":  {standing{stateWaiting, waiting.Wave}, standing{stateWaiting, waiting.Baking}},
		"for a person":  {standing{stateWaiting, waiting.Manual}, standing{stateWaiting, waiting.Manual}},
		"it has it":     {standing{state: stateCurrent}, standing{state: stateCurrent}},
		"it is unknown": {},
	} {
		s, it := NewStates(false), stated{"deployment", types.NamespacedName{Namespace: "a", Name: "one"}}
		s.set(it, test.before)
		s.waits(it, waiting.Baking)
		if got := s.of[it]; got != test.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
