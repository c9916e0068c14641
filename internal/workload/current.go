package workload

import (
	"errors"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podHash is the label by which Argo Rollouts tells the ReplicaSets of a Rollout (argo-rollouts/pkg/apis/rollouts/v1alpha1).
const podHash = "rollouts-pod-template-hash"

// CurrentReplicaSet gives a test for the ReplicaSet of an object's present template, as its controller tells; an error says
// that the controller has not got to it yet. It knows Deployments and Rollouts.
func (k Kind) CurrentReplicaSet(obj client.Object) (func(*appsv1.ReplicaSet) bool, error) {
	notYet := fmt.Errorf("the controller of %s %q has not seen its newest change yet", k.Resource(), obj.GetName())
	switch o := obj.(type) {
	case *appsv1.Deployment:
		// The controller numbers the Deployment as its newest ReplicaSet.
		number := o.Annotations[orderAnnotations[0]]
		if o.Status.ObservedGeneration < o.Generation || number == "" {
			return nil, notYet
		}
		return func(rs *appsv1.ReplicaSet) bool { return rs.Annotations[orderAnnotations[0]] == number }, nil
	case *unstructured.Unstructured:
		observed, _, err := unstructured.NestedString(o.Object, "status", "observedGeneration")
		hash, _, hashErr := unstructured.NestedString(o.Object, "status", "currentPodHash")
		if err := errors.Join(err, hashErr); err != nil {
			return nil, err
		}
		// Argo Rollouts writes the number as text.
		if observed != strconv.FormatInt(o.GetGeneration(), 10) || hash == "" {
			return nil, notYet
		}
		return func(rs *appsv1.ReplicaSet) bool { return rs.Labels[podHash] == hash }, nil
	}
	return nil, fmt.Errorf("%s %q has no ReplicaSets", k.Resource(), obj.GetName())
}
