package workload

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podHash is the label by which Argo Rollouts tells the ReplicaSets of a Rollout (argo-rollouts/pkg/apis/rollouts/v1alpha1).
const podHash = "rollouts-pod-template-hash"

// CurrentReplicaSet finds the ReplicaSet of an object's present template among those of its namespace; an error says why there is none yet.
// It knows Deployments and Rollouts. A ReplicaSet that is being deleted is none.
func (k Kind) CurrentReplicaSet(obj client.Object, all []appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	var current func(*appsv1.ReplicaSet) bool
	var paused bool
	switch o := obj.(type) {
	case *appsv1.Deployment:
		// The Deployment's number is that of the ReplicaSet before while it is paused, so the templates count, as they do for its controller.
		current, paused = func(rs *appsv1.ReplicaSet) bool { return sameTemplate(&rs.Spec.Template, &o.Spec.Template) }, o.Spec.Paused
	case *unstructured.Unstructured:
		hash, err := k.presentPodHash(o)
		if err != nil {
			return nil, err
		}
		current = func(rs *appsv1.ReplicaSet) bool { return rs.Labels[podHash] == hash }
		if paused, _, err = unstructured.NestedBool(o.Object, "spec", "paused"); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%s %q has no ReplicaSets", k.Resource(), obj.GetName())
	}
	var found []*appsv1.ReplicaSet
	for i := range all {
		if rs := &all[i]; metav1.IsControlledBy(rs, obj) && rs.DeletionTimestamp.IsZero() && current(rs) {
			found = append(found, rs)
		}
	}
	switch {
	case len(found) > 0:
		// Of several, the controller takes the oldest.
		return slices.MinFunc(found, olderFirst), nil
	case paused:
		return nil, fmt.Errorf("%s %q is paused: it has no ReplicaSet of its present template before it is resumed", k.Resource(), obj.GetName())
	}
	return nil, fmt.Errorf("%s %q has no ReplicaSet of its present template", k.Resource(), obj.GetName())
}

// sameTemplate compares as the Deployment controller does: the label that it adds for itself does not count.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	delete(a.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	delete(b.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return equality.Semantic.DeepEqual(a, b)
}

// presentPodHash reads the hash that Argo Rollouts gave a Rollout's template, once it has seen its newest change.
func (k Kind) presentPodHash(rollout *unstructured.Unstructured) (string, error) {
	observed, _, err := unstructured.NestedString(rollout.Object, "status", "observedGeneration")
	hash, _, hashErr := unstructured.NestedString(rollout.Object, "status", "currentPodHash")
	if err := errors.Join(err, hashErr); err != nil {
		return "", err
	}
	// Argo Rollouts writes the number as text.
	if observed != strconv.FormatInt(rollout.GetGeneration(), 10) || hash == "" {
		return "", fmt.Errorf("the controller of %s %q has not seen its newest change yet", k.Resource(), rollout.GetName())
	}
	return hash, nil
}

func olderFirst(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// NewestReplicaSet returns the ReplicaSet that was made last, or nil. Of those of one second it is the one with the highest number of its
// workload's, or else the one whose name is last. One that is being deleted does not count.
func NewestReplicaSet(all []appsv1.ReplicaSet) *appsv1.ReplicaSet {
	var newest *appsv1.ReplicaSet
	for i := range all {
		rs := &all[i]
		if rs.DeletionTimestamp.IsZero() && (newest == nil || newerLast(newest, rs) < 0) {
			newest = rs
		}
	}
	return newest
}

func newerLast(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(order(a), order(b)), cmp.Compare(a.Name, b.Name))
}
