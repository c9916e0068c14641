//go:build e2e

package e2e

import (
	"slices"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/gen"
)

// Events of one reason about one workload are not folded into the first when they are about different sources, or different keys of
// one, whether they come one after the other or at once.
func TestEachSourceHasItsOwnEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	both := func(action func(name string)) {
		for _, name := range []string{"one", "two"} {
			action(name)
		}
	}
	w.Create(deployment("late", gen.Replicas(0), envFrom("one", "two")))
	both(func(name string) { w.waitRelated("SourceMissing", "late", name) })

	both(func(name string) { w.Create(configMap(name, "a", "1", "b", "1")) })
	w.Create(deployment("gone", gen.Replicas(0), envFrom("one", "two")),
		deployment("waits", gen.Replicas(0), envFrom("one", "two"), gen.Annotated(keys.Advance, "manual")),
		deployment("lacks", gen.Replicas(0), envKey("one", "a", false), envKey("one", "b", false), envKey("two", "a", false)))
	both(func(name string) {
		for _, d := range []string{"gone", "waits", "lacks"} {
			w.WaitPinned(d, name, "a", "1")
		}
	})
	both(func(name string) {
		w.Kubectl("patch", "configmap", name, "--type=json", "-p", `[{"op":"remove","path":"/data/a"}]`)
		w.waitRelated("WaitingToAdvance", "waits", name)
		w.WaitEvent("KeyMissing", "lacks", "configmap/"+name+` lacks ["a"]`)
	})
	w.Kubectl("patch", "configmap", "one", "--type=json", "-p", `[{"op":"remove","path":"/data/b"},{"op":"add","path":"/data/a","value":"2"}]`)
	w.WaitEvent("KeyMissing", "lacks", `configmap/one lacks ["b"]`)
	both(func(name string) {
		w.Kubectl("delete", "configmap", name)
		w.waitRelated("SourceMissing", "gone", name)
	})
}

// waitRelated waits for an event about a Deployment that is related to a ConfigMap and is about it.
func (w *world) waitRelated(reason, regarding, configMap string) {
	w.Helper()
	w.WaitEvent(reason, regarding, "configmap/"+configMap+" ")
	all := &eventsv1.EventList{}
	w.Must(cluster.Client.List(w.Ctx, all, client.InNamespace(w.NS)))
	if !slices.ContainsFunc(all.Items, func(e eventsv1.Event) bool {
		return e.Reason == reason && e.Regarding.Name == regarding && e.Related != nil && e.Related.Kind == "ConfigMap" && e.Related.Name == configMap
	}) {
		w.Errorf("no event %s on %s is related to ConfigMap %s", reason, regarding, configMap)
	}
}
