//go:build perf

package perf

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// spreadBudget is how many members may be in the middle of the change.
const spreadBudget = 10

// BenchmarkSpread measures how long a change takes that spreads over Deployments that share a ConfigMap, ten at a time, how often confrev
// looks at each, and how many were in the middle of the change at most. In the second half, confrev is killed five times. The floor is the
// same change without settings: all at once.
func BenchmarkSpread(b *testing.B) {
	for _, users := range []int{200, 1000} {
		b.Run(fmt.Sprintf("workloads=%d", users), func(b *testing.B) { benchmarkSpread(b, users) })
	}
}

func benchmarkSpread(b *testing.B, users int) {
	w := newWorld(b)
	w.Patience = 20 * time.Minute
	w.Must(w.TryCreate(configMap("app", "first")))
	var names []string
	for i := range users {
		names = append(names, fmt.Sprintf("web-%04d", i))
	}
	w.many(users, creating, func(i int) error {
		uses := gen.Template(gen.EnvFrom("configmap/app"))
		return w.TryCreate(gen.Unsaved(gen.Deployment(names[i], gen.Tracking("all"), gen.Replicas(1), uses)))
	})
	confrev, templates := w.startPinning(workload.Deployment, names, "--settle", "0s", "--revisions-per-hour", "100000")
	t := newTable(b, fmt.Sprintf("%d Deployments", users), "s until the last pin", "most in flight", "looks at workloads", "looks at the change", "CPU s")
	for b.Loop() {
		_, floor := w.spread(t, "all at once", confrev, templates, names, 0)
		w.Kubectl("annotate", "configmap/app", fmt.Sprintf("%s=%d", keys.MaxRolling, spreadBudget))
		most, took := w.spread(t, fmt.Sprintf("%d at a time", spreadBudget), confrev, templates, names, 0)
		killed, _ := w.spread(t, "killed five times", confrev, templates, names, 5)
		s := measured(b, users)
		s.least("all at once", []time.Duration{floor})
		s.took(fmt.Sprintf("%d at a time", spreadBudget), []time.Duration{took})
		s.set("most in flight", float64(max(most, killed)), "")
	}
	t.print()
}

// spread edits the ConfigMap, waits until every Deployment has the change, and returns how many were in the middle of it at most, and how long
// it took.
func (w *world) spread(t *table, what string, confrev *process, templates *templates, names []string, kills int) (most int, took time.Duration) {
	w.Helper()
	w.idleRollouts(names)
	reconciled := func(controller string) float64 {
		return confrev.metrics().Sum("controller_runtime_reconcile_total", "controller", controller)
	}
	looks, changes, cpu := reconciled("deployment.apps"), reconciled("spread"), confrev.cpu()
	watched := w.watchInFlight()
	edited := w.edit("app", what)
	killed := 0
	last := edited
	for i, at := range templates.changedEach(keys.Pins, names) {
		last = at
		if killed < kills && i >= (killed+1)*len(names)/(kills+1) {
			w.Must(confrev.Kill())
			w.Must(confrev.Start(w.Ctx))
			killed++
		}
	}
	confrev.idle()
	most = watched()
	if kills > 0 {
		// A process that was killed took its counters along.
		t.row(what, last.Sub(edited).Seconds(), most, "", "", "")
		return most, last.Sub(edited)
	}
	t.row(what, last.Sub(edited).Seconds(), most, reconciled("deployment.apps")-looks, reconciled("spread")-changes, (confrev.cpu() - cpu).Seconds())
	return most, last.Sub(edited)
}

// idleRollouts waits until every Deployment is rolled out.
func (w *world) idleRollouts(names []string) {
	w.Helper()
	w.Eventually("all are rolled out", func() string {
		list := &appsv1.DeploymentList{}
		w.List(list)
		left := slices.DeleteFunc(list.Items, func(d appsv1.Deployment) bool { return workload.Deployment.Health(&d).RolledOut })
		if len(left) > 0 || len(list.Items) < len(names) {
			return fmt.Sprintf("%d are not", len(left))
		}
		return ""
	})
}

// watchInFlight follows the Deployments of the namespace. stop returns how many were being rolled out at the same time at most.
func (w *world) watchInFlight() (stop func() int) {
	w.Helper()
	stream := w.watch(&appsv1.DeploymentList{}, nil)
	result := make(chan int)
	go func() {
		most, inFlight := 0, map[string]bool{}
		for event := range stream.ResultChan() {
			d, ok := event.Object.(*appsv1.Deployment)
			if !ok {
				break
			}
			if delete(inFlight, d.Name); workload.Deployment.Health(d).Disturbed {
				inFlight[d.Name] = true
			}
			most = max(most, len(inFlight))
		}
		result <- most
	}()
	return func() int {
		stream.Stop()
		return <-result
	}
}
