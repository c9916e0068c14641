package gen

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
)

// Namespace is where all the objects are.
const Namespace = "default"

// DeploymentModifier changes a Deployment that is being made.
type DeploymentModifier func(*appsv1.Deployment)

// Deployment makes a Deployment of one replica, with a UID.
func Deployment(name string, modifiers ...DeploymentModifier) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	deployment := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, UID: types.UID("deployment-" + name), Generation: 1},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: *PodSpec()},
		},
	}
	for _, modify := range modifiers {
		modify(deployment)
	}
	return deployment
}

// Annotated sets an annotation of the workload.
func Annotated(key, value string) DeploymentModifier {
	return func(d *appsv1.Deployment) { metav1.SetMetaDataAnnotation(&d.ObjectMeta, key, value) }
}

// Replicas sets the number of pods.
func Replicas(n int32) DeploymentModifier {
	return func(d *appsv1.Deployment) { d.Spec.Replicas = &n }
}

// HistoryLimit bounds the old ReplicaSets.
func HistoryLimit(n int32) DeploymentModifier {
	return func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = &n }
}

// Untracked reverts Tracking.
func Untracked(d *appsv1.Deployment) { delete(d.Annotations, keys.Track) }

// Tracking opts the workload in: "all", or a list of sources.
func Tracking(text string) DeploymentModifier { return Annotated(keys.Track, text) }

// Pinned sets the pins of the workload's template.
func Pinned(text string) DeploymentModifier {
	return func(d *appsv1.Deployment) { metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, keys.Pins, text) }
}

// Template changes the pod spec of the workload's template.
func Template(modifiers ...PodSpecModifier) DeploymentModifier {
	return func(d *appsv1.Deployment) {
		for _, modify := range modifiers {
			modify(&d.Spec.Template.Spec)
		}
	}
}

// ReplicaSet makes a ReplicaSet of the Deployment's present template, which the Deployment rolled out as its revision
// number order.
func ReplicaSet(name string, of *appsv1.Deployment, order int64) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace, Name: name, UID: types.UID("replicaset-" + name),
			Annotations:     map[string]string{"deployment.kubernetes.io/revision": strconv.FormatInt(order, 10)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(of, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: appsv1.ReplicaSetSpec{Selector: of.Spec.Selector.DeepCopy(), Template: *of.Spec.Template.DeepCopy()},
	}
}

// Unsaved takes from an object what only the API server sets, and the namespace: it is as a user writes it.
func Unsaved[T client.Object](obj T) T {
	obj.SetNamespace("")
	obj.SetUID("")
	obj.SetResourceVersion("")
	obj.SetGeneration(0)
	return obj
}

// Data makes a map of key, value, key, value, ….
func Data(pairs ...string) map[string]string {
	data := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		data[pairs[i]] = pairs[i+1]
	}
	return data
}

// ConfigMap makes a ConfigMap with a UID.
func ConfigMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, UID: types.UID("configmap-" + name), ResourceVersion: "1"},
		Data:       data,
	}
}

// Secret makes a Secret with a UID.
func Secret(name string, secretType corev1.SecretType, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, UID: types.UID("secret-" + name), ResourceVersion: "1"},
		Type:       secretType, Data: data,
	}
}
