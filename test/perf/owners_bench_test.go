//go:build perf

package perf

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
)

// BenchmarkOwners measures what the owners of one revision cost that many ReplicaSets pin: how often they are written, and how large the revision
// is in the end. CONFREV_BENCH_HOLDERS is another number of ReplicaSets.
func BenchmarkOwners(b *testing.B) {
	holders := size(b, "CONFREV_BENCH_HOLDERS", 5000)
	b.Run(fmt.Sprint("holders=", holders), func(b *testing.B) { benchmarkOwners(b, holders) })
}

// benchmarkOwners does not loop: a holder is new only once.
func benchmarkOwners(b *testing.B, holders int) {
	w := newWorld(b)
	w.patientFor(holders)
	confrev, _ := w.startPinning(workload.Deployment, w.tracked("web", 1), "--settle", "0s")
	w.caughtUp()
	pins := w.Deployment("web-0").Spec.Template.Annotations[keys.Pins]
	owners, mark, cpu, begun := w.watchOwners(), w.mark(), confrev.cpu(), time.Now()
	w.many(holders, creating, func(i int) error { return w.TryCreate(newHolder(fmt.Sprint("holder-", i), pins)) })
	created := time.Since(begun)
	idle := confrev.idle().Sub(begun)
	requests, writes := w.requests(mark, 1), owners()
	revision := &corev1.ConfigMap{}
	w.Must(w.Get(w.PinOf("web-0", "web-0").Revision, revision))
	text, err := json.Marshal(revision)
	w.Must(err)
	w.checkOwned(revision.OwnerReferences, holders)
	t := newTable(b, fmt.Sprintf("%d holders of one revision", holders), "writes of owners", "owners", "revision KiB", "created", "idle", "CPU")
	t.row("", len(writes), len(revision.OwnerReferences), float64(len(text))/1024, created, idle, confrev.cpu()-cpu)
	t.print()
	fmt.Printf("%s\n", requests)
	s := measured(b, holders)
	s.set("writes of owners", float64(len(writes)), "")
	s.set("revision", float64(len(text))/1024, "KiB")
	s.set("reads", requests.sum(true), "")
	s.set("writes", requests.sum(false), "")
	s.set("idle", ms(idle), "ms")
}

// checkOwned ends the benchmark unless every holder owns the revision, or the anchor does for all of them: it would measure something else.
func (w *world) checkOwned(owners []metav1.OwnerReference, holders int) {
	w.Helper()
	anchored := len(owners) == 1 && owners[0].Kind == "ConfigMap"
	if !anchored && len(owners) < holders {
		w.Fatalf("%d holders, but the owners are %v", holders, owners)
	}
}

// newHolder makes a ReplicaSet without pods that belongs to no Deployment.
func newHolder(name, pins string) *appsv1.ReplicaSet {
	template := deployment(name, name).Spec.Template
	template.Labels = map[string]string{"app": name}
	template.Annotations = map[string]string{keys.Pins: pins}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template,
		},
	}
}
