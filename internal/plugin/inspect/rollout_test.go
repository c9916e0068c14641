package inspect

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubectl/pkg/polymorphichelpers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/workload"
)

// The controller does not link kubectl, so the judgement is confrev's own. It is kubectl's: both say of every state that a
// Deployment or DaemonSet can be in whether it is done and whether it failed.
func TestProgressIsThatOfKubectlRolloutStatus(t *testing.T) {
	replicas, checked := int32(2), 0
	for _, generation := range []int64{1, 2} {
		for updated := range replicas + 1 {
			for available := range updated + 1 {
				for _, reason := range []string{"", "NewReplicaSetAvailable", "ReplicaSetUpdated", "ProgressDeadlineExceeded"} {
					for old := range int32(2) {
						d := &appsv1.Deployment{}
						d.Generation, d.Spec.Replicas = generation, &replicas
						d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: updated + old, UpdatedReplicas: updated, AvailableReplicas: available}
						if reason != "" {
							d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Reason: reason}}
						}
						compareWithKubectl(t, workload.Deployment, d, &polymorphichelpers.DeploymentStatusViewer{})
						checked++
					}
				}
				d := &appsv1.DaemonSet{}
				d.Generation, d.Spec.UpdateStrategy.Type = generation, appsv1.RollingUpdateDaemonSetStrategyType
				d.Status = appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: replicas, UpdatedNumberScheduled: updated, NumberAvailable: available}
				compareWithKubectl(t, workload.DaemonSet, d, &polymorphichelpers.DaemonSetStatusViewer{})
				checked++
			}
		}
	}
	if checked != 108 {
		t.Errorf("compared %d states", checked)
	}
}

func compareWithKubectl(t *testing.T, kind workload.Kind, obj client.Object, viewer polymorphichelpers.StatusViewer) {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	says, done, failure := viewer.Status(&unstructured.Unstructured{Object: content}, 0)
	if got := kind.Progress(obj); got.Failed != (failure != nil) || (got.Left == "") != done {
		t.Errorf("of %+v: %+v, kubectl says %q, done %t, %v", content["status"], got, says, done, failure)
	}
}
