//go:build e2e

package e2e

import (
	"context"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// nobodyLeads keeps every replica from leading until the test ends: the webhook answers, and no controller runs.
func (w *world) nobodyLeads() {
	w.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "confrev"}}
	w.Must(client.IgnoreNotFound(cluster.Client.Delete(w.Ctx, lease)))
	now := metav1.NowMicro()
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: new("stranger"), LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now}
	w.Must(cluster.Client.Create(w.Ctx, lease))
	w.Cleanup(func() { w.Must(client.IgnoreNotFound(cluster.Client.Delete(context.Background(), lease))) })
}

// Rule 12: while no one leads, a chart renames its workload and keeps its ConfigMap. What the new workload is pinned to does not go
// with the old one, whether the new one is being created or was there before. Not parallel.
func TestRevisionOutlivesItsFirstWorkload(t *testing.T) {
	w := newWorld(t)
	for _, source := range []string{"created", "updated"} {
		w.Create(configMap(source, "k", "v"), deployment(source+"-v1", envFrom(source)))
		w.WaitOwned(w.WaitPinned(source+"-v1", source, "k", "v").Revision, source+"-v1")
	}
	w.Create(deployment("updated-v2", envFrom("updated"), gen.Annotated(keys.Track, "none")))
	stop(t)
	w.nobodyLeads()
	waiting := newReplica(t, "waiting")
	defer waiting.stop(t)
	w.Must(cluster.WaitWebhook(w.Ctx))

	w.Create(deployment("created-v2", envFrom("created")))
	w.Kubectl("annotate", "--overwrite", "deployment/updated-v2", keys.Track+"=all")
	pins := map[string]string{}
	for _, source := range []string{"created", "updated"} {
		pins[source] = w.WaitPinned(source+"-v2", source, "k", "v").Revision
		// What has the same owners and nothing else goes with them.
		witness := configMap("witness-of-" + source)
		held := &corev1.ConfigMap{}
		w.Must(w.Get(pins[source], held))
		for _, o := range held.OwnerReferences {
			if o.Name != revision.AnchorName && o.UID != w.Deployment(source+"-v2").UID {
				witness.OwnerReferences = append(witness.OwnerReferences, o)
			}
		}
		w.Create(witness)
	}
	w.Kubectl("delete", "deployment", "created-v1", "updated-v1")
	for _, source := range []string{"created", "updated"} {
		w.waitGone("witness-of-" + source)
		w.collected(pins[source])
		if w.Gone(pins[source]) {
			t.Errorf("%s was taken, and %s-v2 is pinned to it", pins[source], source)
		}
	}
	if t.Failed() {
		return
	}
	waiting.stop(t)
	start(t)
	// Once it leads, the users own it in the place of the anchor.
	for _, source := range []string{"created", "updated"} {
		w.WaitOwned(pins[source], source+"-v2")
	}
}
