//go:build e2e

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// What confrev.io/restart-on may name is what the chart lists, and nothing that it reads is repeated anywhere.
func TestRestartOnDisclosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const canary = "canary-of-another-tenant"
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "tenant-b-", Annotations: map[string]string{"note": canary}}}
	env.Create(t, cluster.Client, other)
	w.Create(configMap("web", "k", "v"))
	for name, path := range map[string]string{
		"filter": "{.metadata.annotations[?(@.x)]}", "union": "{.metadata.annotations['note','x']}",
		"deep": "{..note}", "plain": "{.metadata.annotations.note}", "status": "{.status.phase}", "whole": "",
	} {
		w.Create(deployment(name, gen.Replicas(0), envFrom("web"), gen.Annotated(keys.RestartOn, "namespaces.v1/"+other.Name+path)))
		w.WaitPinned(name, "web", "k", "v")
	}
	w.Barrier()
	for _, name := range []string{"filter", "union", "deep", "plain"} {
		w.WaitEvent("InvalidRestartOn", name, "annotation confrev.io/restart-on: ")
	}
	for _, name := range []string{"status", "whole"} {
		w.WaitEvent("RestartOnForbidden", name, "namespaces")
		if d := w.Deployment(name); strings.Contains(d.Annotations[keys.Hashes], "namespaces") {
			t.Errorf("%s follows a namespace, which the chart does not list: %s", name, d.Annotations[keys.Hashes])
		}
	}
	if all := w.Describe() + w.Kubectl("get", "events.events.k8s.io", "-o", "yaml"); strings.Contains(all, canary) {
		t.Errorf("an annotation of another namespace was repeated:\n%s", all)
	}
}

// An object that is in no namespace matters to workloads in any.
func TestRestartOnAnObjectInNoNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: w.NS}, Provisioner: "e2e.confrev.io/none"}
	env.Create(t, cluster.Client, class)
	trigger := "storageclasses.v1.storage.k8s.io/" + class.Name
	worlds := []*world{w, newWorld(t)}
	for _, w := range worlds {
		w.Create(configMap("web", "k", "v"), deployment("web", envFrom("web"), gen.Annotated(keys.RestartOn, trigger)))
		w.waitFollowed("web", trigger)
	}
	class.AllowVolumeExpansion = new(true)
	w.Must(cluster.Client.Update(w.Ctx, class))
	for _, w := range worlds {
		w.waitRestarted("web", trigger, "")
	}
}

// One annotation must not be able to end confrev: what it asks for is bounded.
func TestRestartOnIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	union := "['" + strings.Repeat("a','", 29) + "a']"
	w.Create(configMap("web", "k", "v"),
		deployment("bomb", envFrom("web"), gen.Annotated(keys.RestartOn, "persistentvolumeclaims.v1/data{.spec"+strings.Repeat(union, 5)+"}")),
		deployment("many", envFrom("web"), gen.Annotated(keys.RestartOn, strings.Repeat("configmap/x,", 1000))),
		deployment("long", envFrom("web"), gen.Annotated(keys.RestartOn, "configmap/"+strings.Repeat("x", 100_000))))
	pid := confrev.PID()
	w.WaitEvent("InvalidRestartOn", "bomb", "annotation confrev.io/restart-on: ")
	w.WaitEvent("InvalidRestartOn", "many", "annotation confrev.io/restart-on: it has more than 32 items")
	w.WaitEvent("InvalidRestartOn", "long", "annotation confrev.io/restart-on: an item is longer than 1024 bytes")
	w.Barrier()
	if confrev.Ended() || confrev.PID() != pid {
		t.Fatal("confrev ended")
	}
}
