package workload

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
)

// Deployment adapts apps/v1 Deployments. Their holders are ReplicaSets.
type Deployment struct{}

var _ Kind = Deployment{}

// Resource implements Kind.
func (Deployment) Resource() string { return "deployment" }

// New implements Kind.
func (Deployment) New() client.Object { return &appsv1.Deployment{} }

// NewList implements Kind.
func (Deployment) NewList() client.ObjectList { return &appsv1.DeploymentList{} }

// Template implements Kind.
func (Deployment) Template(obj client.Object) *corev1.PodTemplateSpec {
	return &obj.(*appsv1.Deployment).Spec.Template
}

// TemplatePath implements Kind.
func (Deployment) TemplatePath() string { return "/spec/template" }

// Compact implements Kind. The annotation of client-side apply alone is as large as the rest.
func (Deployment) Compact(obj client.Object) {
	deployment := obj.(*appsv1.Deployment)
	deployment.ManagedFields = nil
	delete(deployment.Annotations, corev1.LastAppliedConfigAnnotation)
	deployment.Status = appsv1.DeploymentStatus{}
}

// Holder implements Kind.
func (Deployment) Holder() HolderKind { return ReplicaSet{} }

// ReplicaSet adapts the holders of Deployments.
type ReplicaSet struct{}

var _ HolderKind = ReplicaSet{}

// Resource implements HolderKind.
func (ReplicaSet) Resource() string { return "replicaset" }

// New implements HolderKind.
func (ReplicaSet) New() client.Object { return &appsv1.ReplicaSet{} }

// NewList implements HolderKind.
func (ReplicaSet) NewList() client.ObjectList { return &appsv1.ReplicaSetList{} }

// PinsText implements HolderKind.
func (ReplicaSet) PinsText(obj client.Object) string {
	return obj.(*appsv1.ReplicaSet).Spec.Template.Annotations[keys.Pins]
}

// revisionAnnotation is raised by the Deployment controller each time that it rolls out the ReplicaSet's template, by
// `kubectl rollout undo` too (k8s.io/kubectl/pkg/util/deployment).
const revisionAnnotation = "deployment.kubernetes.io/revision"

// Order implements HolderKind. A ReplicaSet that has no number yet has order 0.
func (ReplicaSet) Order(obj client.Object) int64 {
	order, err := strconv.ParseInt(obj.GetAnnotations()[revisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return order
}

// Compact implements HolderKind.
func (r ReplicaSet) Compact(obj client.Object) {
	replicaSet := obj.(*appsv1.ReplicaSet)
	annotations := map[string]string{revisionAnnotation: replicaSet.Annotations[revisionAnnotation]}
	template := map[string]string{}
	if pins := r.PinsText(obj); pins != "" {
		template[keys.Pins] = pins
	}
	*replicaSet = appsv1.ReplicaSet{
		TypeMeta: replicaSet.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name:              replicaSet.Name,
			Namespace:         replicaSet.Namespace,
			UID:               replicaSet.UID,
			ResourceVersion:   replicaSet.ResourceVersion,
			DeletionTimestamp: replicaSet.DeletionTimestamp,
			OwnerReferences:   replicaSet.OwnerReferences,
			Annotations:       annotations,
		},
		Spec: appsv1.ReplicaSetSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: template}}},
	}
}
