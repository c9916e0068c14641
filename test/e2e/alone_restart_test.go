//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// These tests stop confrev, so none of them is parallel.

func stop(t *testing.T) {
	t.Helper()
	if err := confrev.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !confrev.Ended() {
			return
		}
		// A test that failed before it started confrev again is not to fail all others.
		if err := confrev.Start(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func start(t *testing.T) {
	t.Helper()
	if err := confrev.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The promise holds while confrev is down: the API server itself resolves the pins.
func podsStartWithTheirRevision(m *member) {
	onlyWithPolicies(m.T)
	w, a := deployed(m.T, gen.Replicas(2))
	w.podsRead(a.Revision)
	m.next()
	w.Edit("web", "color", "B")
	w.Edit("web", "color", "C")
	w.Kubectl("delete", "pod", "-l", "app=web", "--wait=true")
	w.Kubectl("scale", "deployment/web", "--replicas=3")
	w.Eventually("three pods read "+a.Revision, func() string {
		if got := w.readers(); got[a.Revision] != 3 || len(got) != 1 {
			return fmt.Sprint(got)
		}
		return ""
	})
	before := len(w.ReplicaSets("web"))

	m.next()
	w.WaitPinned("web", "web", "color", "C")
	w.Barrier()
	if got := len(w.ReplicaSets("web")) - before; got != 1 {
		m.Errorf("the edits made while confrev was down are %d rollouts, want 1", got)
	}
}

func undoWhileConfrevIsDownHolds(m *member) {
	w, a := deployed(m.T)
	w.editTo("B")
	m.next()
	w.Undo("web")
	m.next()
	w.WaitHeld("web", "web")
	w.Barrier()
	if got := w.PinOf("web", "web"); got != a {
		m.Errorf("the pin is %s, want %s", got, a)
	}
}

// Killed at any moment of an edit, it comes to the same state: one rollout, one revision, its owner.
func TestKilledAtAnyMomentOfAnEditConverges(t *testing.T) {
	const edits = 12
	// No ReplicaSet is pruned, which would hide one too many.
	w, _ := deployed(t, gen.Annotated(keys.Settle, "0s"), gen.HistoryLimit(10*edits))
	w.Barrier()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range edits {
		value := fmt.Sprintf("edit %d", i)
		w.Edit("web", "color", value)
		// An edit takes confrev some 30 ms.
		time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
		if err := confrev.Kill(); err != nil {
			t.Fatal(err)
		}
		start(t)
		pinned := w.WaitPinned("web", "web", "color", value)
		w.WaitOwned(pinned.Revision, "web")
	}
	w.Barrier()
	w.onlyReplicaSets("web", 1+edits)
	if made, used := w.revisionNames("web"), w.pinnedByReplicaSets("web", "web"); !slices.Equal(made, used) || len(made) != 1+edits {
		t.Errorf("%d contents have revisions %q; ReplicaSets pin %q", 1+edits, made, used)
	}
}

// revisionNames lists the names of a source's revisions, sorted.
func (w *world) revisionNames(source string) []string {
	w.Helper()
	var names []string
	for _, revision := range w.Revisions(source) {
		names = append(names, revision.Name)
	}
	slices.Sort(names)
	return names
}

// pinnedByReplicaSets lists the revisions of a source that a Deployment's ReplicaSets pin, sorted, each as often as it is pinned.
func (w *world) pinnedByReplicaSets(deployment, source string) []string {
	w.Helper()
	var names []string
	for _, rs := range w.ReplicaSets(deployment) {
		pins, err := pin.Parse(rs.Spec.Template.Annotations[keys.Pins])
		w.Must(err)
		names = append(names, pins[pin.Source{Kind: pin.ConfigMap, Name: source}].Revision)
	}
	slices.Sort(names)
	return names
}

// Rule 3, asserted from the API server's audit log.
func TestRestartsWriteNothing(t *testing.T) {
	const workloads, restarts = 50, 20
	w := newWorld(t)
	for i := range workloads {
		name := fmt.Sprintf("web-%d", i)
		w.Create(configMap(name, "k", "v"), deployment(name, envFrom(name, "shared"), gen.Replicas(0)))
	}
	w.Create(configMap("shared", "k", "v"))
	held := "web-0"
	for i := range workloads {
		name := fmt.Sprintf("web-%d", i)
		pinned := w.WaitPinned(name, name, "k", "v")
		w.WaitOwned(pinned.Revision, name)
		w.WaitPinned(name, "shared", "k", "v")
	}
	w.Edit(held, "k", "B")
	w.WaitPinned(held, held, "k", "B")
	w.Undo(held)
	w.WaitHeld(held, held)
	w.Kubectl("annotate", "configmap", "web-1", "note=only metadata")
	apps := map[*app]int64{}
	for i, s := range subjects {
		a, pinned := w.launch(s, fmt.Sprintf("kind-%d", i))
		a.waitOwned(pinned)
		if s.kind == workload.StatefulSet {
			a.editTo("B")
			a.rollBack(a)
			a.waitHolds()
		}
		apps[a] = 0
	}
	w.Barrier()
	templates := w.generations()
	for a := range apps {
		apps[a] = a.templateObject().GetGeneration()
	}

	elsewhere := newWorld(t)
	stop(t)
	mark, err := cluster.AuditNow()
	w.Must(err)
	var reads int
	for i := range restarts {
		start(t)
		w.lookedAtAll()
		if i == restarts-1 {
			// What waits for a settle or a grace time has had both by then: there it has acted on each.
			elsewhere.Barrier()
			elsewhere.graceTimePasses()
			w.lookedAtAll()
		}
		stop(t)
	}
	requests, err := cluster.ConfrevRequests(mark)
	w.Must(err)
	acted := false
	for _, r := range requests {
		switch {
		case r.Object.Namespace == elsewhere.NS:
			acted = acted || r.Writes()
		case r.Writes():
			t.Errorf("a restart wrote: %s", r)
		}
		if r.Verb == "get" && r.Object.Resource == "configmaps" && r.Object.Namespace == w.NS {
			reads++
		}
	}
	if !acted {
		t.Error("confrev wrote nothing elsewhere either: this test shows nothing")
	}
	// Only the two sources whose content their workloads were rolled back from may have to be read: no revision that is in
	// use notes their versions. All others did not change since.
	if reads > restarts*4 {
		t.Errorf("%d restarts read sources and revisions %d times", restarts, reads)
	}
	start(t)
	w.Barrier()
	after := w.generations()
	for name, before := range templates {
		if after[name] != before && name != "barrier" {
			t.Errorf("%s went from generation %d to %d", name, before, after[name])
		}
	}
	for a, before := range apps {
		if got := a.templateObject().GetGeneration(); got != before {
			t.Errorf("%s went from generation %d to %d", a.subject, before, got)
		}
	}
}

func (w *world) generations() map[string]int64 {
	w.Helper()
	all := &appsv1.DeploymentList{}
	w.Must(cluster.Client.List(w.Ctx, all, client.InNamespace(w.NS)))
	generations := map[string]int64{}
	for _, d := range all.Items {
		generations[d.Name] = d.Generation
	}
	return generations
}

// lookedAtAll waits until confrev, freshly started, has nothing left to do: its queues are empty and its workers idle.
func (w *world) lookedAtAll() {
	w.Helper()
	w.Eventually("confrev is idle", func() string {
		metrics, err := confrev.ReadMetrics(w.Ctx)
		if err != nil {
			return err.Error()
		}
		if metrics.Sum("controller_runtime_reconcile_total") < 50 {
			return "it has not looked at the workloads yet"
		}
		if busy := metrics.Sum("workqueue_depth") + metrics.Sum("controller_runtime_active_workers"); busy > 0 {
			return fmt.Sprint(busy, " items at work")
		}
		return ""
	})
}

// A replica that waits for the lease is ready, and takes over when the leader ends.
func TestSecondReplicaTakesOver(t *testing.T) {
	stop(t)
	defer start(t)
	var replicas [2]*replica
	for i := range replicas {
		replicas[i] = newReplica(t, fmt.Sprintf("replica-%d", i))
		defer replicas[i].stop(t)
	}
	w, _ := deployed(t)
	w.editTo("B")
	replicas[0].stop(t)
	w.editTo("C")
}

// Pins that nothing resolves would only look as if they kept the promise: without the policies, nothing is pinned.
func TestNothingIsPinnedWhileAPolicyIsMissing(t *testing.T) {
	stop(t)
	w := newWorld(t)
	// Also if it fails, or else all tests after it would wait for nothing.
	reinstallAfter(t)
	missing := w.removePodAdmission()
	w.Must(confrev.Launch())
	const canary = "canary-without-policies"
	w.Create(configMap("web", "color", "A", "other", canary), deployment("web", envFrom("web"), canaried(canary)))
	w.WaitEvent("PoliciesNotReady", "web", missing+" confrev-resolve-pins is missing")
	w.tellsNothing(confrev, "PoliciesNotReady", canary)
	if got := w.PinsText("web"); got != "" {
		t.Errorf("pinned: %s", got)
	}

	w.Must(reinstall(t))
	w.Must(confrev.WaitReady(w.Ctx))
	a := w.WaitPinned("web", "web", "color", "A")
	w.podsRead(a.Revision)
}
