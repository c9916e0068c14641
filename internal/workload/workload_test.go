package workload_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

func TestPins(t *testing.T) {
	const text = "configmap/app=app-bbbbbbbbbb@1"
	got, err := workload.Deployment.Pins(gen.Deployment("web", gen.Pinned(text)))
	if err != nil || got.String() != text {
		t.Errorf("Pins = %v, %v", got, err)
	}
	for _, text := range []string{"oops", text + ",oops"} {
		if got, err := workload.Deployment.Pins(gen.Deployment("web", gen.Pinned(text))); err == nil || len(got) > 0 {
			t.Errorf("malformed pins %q read as %v, %v", text, got, err)
		}
	}
	if got, err := workload.Deployment.Pins(gen.Deployment("web")); err != nil || len(got) > 0 {
		t.Errorf("no pins read as %v, %v", got, err)
	}
}

func TestOrderOfReplicaSets(t *testing.T) {
	holder := workload.ReplicaSet
	if got := holder.Facts(gen.ReplicaSet("web-1", gen.Deployment("web"), 7)).Order; got != 7 {
		t.Errorf("Order = %d, want 7", got)
	}
	for _, text := range []string{"", "x", "1.5", "99999999999999999999"} {
		rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"deployment.kubernetes.io/revision": text}}}
		if got := holder.Facts(rs).Order; got != 0 {
			t.Errorf("Order of %q = %d, want 0", text, got)
		}
	}
}

// What confrev reads of an object is the same before and after it went into the cache.
func TestCompactKeepsWhatIsRead(t *testing.T) {
	d := gen.Deployment("web", gen.Tracking("all"), gen.Pinned("configmap/app=app-bbbbbbbbbb@1"), gen.Template(gen.EnvFrom("configmap/app")),
		gen.Annotated(corev1.LastAppliedConfigAnnotation, strings.Repeat("x", 1000)))
	d.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	d.Status.Replicas, d.Status.ReadyReplicas = 3, 3

	before := d.DeepCopy()
	workload.Deployment.Compact(d)
	if diff := cmp.Diff(before.Spec, d.Spec); diff != "" {
		t.Errorf("the spec changed (-before +after):\n%s", diff)
	}
	if d.ManagedFields != nil || d.Status.Replicas != 3 || d.Status.ReadyReplicas != 0 || d.UID != before.UID {
		t.Errorf("compacted to %+v", d.ObjectMeta)
	}

	// A workload without any annotation is written differently, so the key stays.
	if applied, stays := d.Annotations[corev1.LastAppliedConfigAnnotation]; !stays || applied != "" || len(d.Annotations) != 2 {
		t.Errorf("annotations %q", d.Annotations)
	}
}
