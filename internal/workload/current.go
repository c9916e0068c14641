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

// podHash is the label that distinguishes the ReplicaSets of a Rollout (argo-rollouts/pkg/apis/rollouts/v1alpha1).
const podHash = "rollouts-pod-template-hash"

// CurrentReplicaSet returns the ReplicaSet of an object's present template. all are the ReplicaSets of its namespace; those that are
// being deleted do not count. If there is none yet, the error says why. Only Deployments and Rollouts have one.
func (k Kind) CurrentReplicaSet(obj client.Object, all []appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	var current func(*appsv1.ReplicaSet) bool
	var paused bool
	switch o := obj.(type) {
	case *appsv1.Deployment:
		// A paused Deployment still has the number of its previous ReplicaSet, so templates are compared, as its controller does.
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
		// If there are several, the controller uses the oldest.
		return slices.MinFunc(found, olderFirst), nil
	case paused:
		return nil, fmt.Errorf("%s %q is paused: it has no ReplicaSet of its present template until it is resumed", k.Resource(), obj.GetName())
	}
	return nil, fmt.Errorf("%s %q has no ReplicaSet of its present template", k.Resource(), obj.GetName())
}

// sameTemplate compares templates as the Deployment controller does: the label that it adds itself does not count.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	delete(a.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	delete(b.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return equality.Semantic.DeepEqual(a, b)
}

// presentPodHash returns the hash that Argo Rollouts computed for a Rollout's template. It returns an error if Argo Rollouts has not
// seen the newest change yet.
func (k Kind) presentPodHash(rollout *unstructured.Unstructured) (string, error) {
	observed, _, err := unstructured.NestedString(rollout.Object, "status", "observedGeneration")
	hash, _, hashErr := unstructured.NestedString(rollout.Object, "status", "currentPodHash")
	if err := errors.Join(err, hashErr); err != nil {
		return "", err
	}
	// Argo Rollouts writes the generation as text.
	if observed != strconv.FormatInt(rollout.GetGeneration(), 10) || hash == "" {
		return "", fmt.Errorf("the controller of %s %q has not seen its newest change yet", k.Resource(), rollout.GetName())
	}
	return hash, nil
}

func olderFirst(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// NewestReplicaSet returns the ReplicaSet that was created last, or nil. Among those created in the same second, the one with the
// highest revision number wins, then the one whose name sorts last. ReplicaSets that are being deleted do not count.
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
