//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/test/gen"
)

// kubectl apply --prune removes a source that the manifest has no more, and never a revision.
func TestPruning(t *testing.T) {
	for name, flags := range map[string][]string{
		"by label": {"--prune", "--selector=app=web"},
		// Otherwise, this also deletes namespaces and volumes that others have applied, and fails if someone else does at the same time.
		"all":         {"--prune", "--all", "--prune-allowlist=core/v1/ConfigMap", "--prune-allowlist=apps/v1/Deployment"},
		"by ApplySet": {"--prune", "--applyset=web"},
	} {
		t.Run(name, func(t *testing.T) {
			forEachInjection(t, "", func(w *world, r release) {
				apply := func(manifest string) {
					w.KubectlIn(manifest, append([]string{"apply", "-f", "-"}, flags...)...)
				}
				a := w.PinOf("web", "web")
				r.color = "B"
				apply(r.manifest())
				w.runs(r, 2)
				b := w.PinOf("web", "web")
				apply(r.deployment("web"))
				w.waitGone("web")
				w.WaitEvent("SourceMissing", "web", "pods keep using its revision "+b.String())
				w.runs(r, 2)
				// The undo finds what it needs.
				w.Undo("web")
				w.runs(release{image: "app:1", color: "A"}, 3)
				if got := w.PinOf("web", "web"); got != a {
					w.Errorf("undone to %s, want %s", got, a)
				}
				r.color = "C"
				apply(r.manifest())
				w.runs(r, 4)
			})
		})
	}
}

// A move that would have no effect but a rollout with the source as it is, is refused. Not parallel.
func TestPluginMovesNoPinsThatNothingResolves(t *testing.T) {
	w := newWorld(t)
	w.threeRevisions()
	w.Create(deployment("inside", envFrom("app"), gen.Annotated(keys.Injection, "template")))
	w.WaitPinned("inside", "app", "v", "3")
	stop(t)
	reinstallAfter(t)
	missing := w.removePodAdmission()
	user := w.account("user", rights("apps", []string{"deployments"}, "get", "list", "patch"), rights("apps", []string{"replicasets"}, "list"),
		rights("", []string{"configmaps"}, "get", "list"))
	w.confrev("undo", "deployment/web").fails(1, "*-resolve-pins", "nothing was done", "kubectl confrev undo deployment/web --restore-source")
	if n := w.PinOf("web", "app").Number; n != 3 {
		t.Errorf("the pin moved to %d", n)
	}
	var d view.Diagnosis
	w.pluginJSON(&d, "doctor")
	if f := found(d, "PolicyMissing", strings.ToLower(missing)+"/confrev-resolve-pins"); servesPolicies(t) && (f == nil || f.Fix == "" || f.Severity != "Error") {
		t.Errorf("doctor finds %+v", d.Findings)
	}
	// Names in the template need no one.
	w.confrev("undo", "deployment/inside", "configmap/app", "--to-revision=1").says("revision 3 -> 1")
	w.confrev("undo", "deployment/web", "--restore-source").says("configmap/app restored")
	// Who may not look is not kept from it.
	if got := w.confrev("undo", "deployment/web", "--to-revision=1", user); got.status != 0 {
		t.Errorf("status %d: %s", got.status, got.stderr)
	}
}

// budget is how often the sources of a workload may roll it out within an hour in the test of that: often enough for each of them.
const budget = 4

// Rule 11: what changes all the time is not copied all the time.
func TestASourceThatChangesTooOftenIsNotCopied(t *testing.T) {
	stop(t)
	binary := binary
	capped, err := cluster.Confrev(t.Context(), "capped", binary, "--settle", "0s", "--grace", grace.String(),
		"--revisions-per-hour", "3", "--rollouts-per-hour", fmt.Sprint(budget))
	if err != nil {
		t.Fatal(err)
	}
	if err := capped.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := capped.Stop(); err != nil {
			t.Error(err)
		}
		start(t)
	}()
	// The webhook pins the first content, and spends nothing of the budget (rule 11).
	w, _ := deployed(t)
	w.editTo("B")
	w.editTo("C")
	last := w.editTo("D")
	w.Edit("web", "color", "E")
	w.WaitEvent("ChangesTooOften", "web", "configmap/web has changed more than 3 times within an hour")
	if got := w.PinOf("web", "web"); got != last {
		t.Errorf("the pin moved to %s", got)
	}
	if got := len(w.Revisions("web")); got != 4 {
		t.Errorf("%d revisions, want 4", got)
	}
	// A flip-flop between two contents makes no revision, and would roll anyway.
	w.Edit("web", "color", "B")
	w.Edit("web", "color", "A")
	w.Barrier()
	w.Edit("web", "color", "B")
	w.Barrier()
	if got := w.PinOf("web", "web"); got != last {
		t.Errorf("it moved to %s", got)
	}
	// Nor does it restart a workload without end.
	const canary = "canary-of-changes"
	w.Create(configMap("status", "k", "0", "other", canary), deployment("watcher", inMode(optin.Restart), envFrom("status"), canaried(canary)))
	w.waitFollowed("watcher", "configmap/status")
	for i := range 5 {
		before := w.hashes("watcher")
		w.Edit("status", "k", fmt.Sprint(i+1))
		if i < 3 {
			w.waitRestarted("watcher", "configmap/status", before)
		}
	}
	w.WaitEvent("ChangesTooOften", "watcher", "configmap/status has changed")
	w.tellsNothing(capped, "ChangesTooOften", canary)
	busySourcesHaveABudget(newWorld(t))
}

// Rule 11: sources that each change seldom enough roll a workload out no more often together than it may be. What waits goes along with
// a deploy.
func busySourcesHaveABudget(w *world) {
	w.Helper()
	var names []string
	for i := range budget + 1 {
		names = append(names, fmt.Sprint("busy-", i))
		w.Create(configMap(names[i], "k", "1"))
	}
	last := names[budget]
	w.Create(deployment("web", envFrom(names...)))
	w.WaitPinned("web", last, "k", "1")
	for _, name := range names[:budget] {
		w.Edit(name, "k", "2")
		w.WaitPinned("web", name, "k", "2")
	}
	w.Edit(last, "k", "2")
	w.WaitEvent("ChangesTooOften", "web", fmt.Sprintf("deployment/web was rolled out %d times within an hour for changes to its sources", budget))
	w.Barrier()
	if got := w.PinOf("web", last); got.Number != 1 {
		w.Errorf("beyond its budget it moved to %s", got)
	}
	w.onlyReplicaSets("web", budget+1)
	w.Kubectl("set", "image", "deployment/web", "app=app:2")
	w.WaitPinned("web", last, "k", "2")
	w.onlyReplicaSets("web", budget+2)
}
