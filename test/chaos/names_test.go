//go:build chaos

package chaos

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/pin"
)

// kinds are those of the objects that histories are about, by the names that kubectl takes.
var kinds = map[string]schema.GroupVersionKind{
	"configmap":          corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	"secret":             corev1.SchemeGroupVersion.WithKind("Secret"),
	"resourcequota":      corev1.SchemeGroupVersion.WithKind("ResourceQuota"),
	"pod":                corev1.SchemeGroupVersion.WithKind("Pod"),
	"replicaset":         appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
	"controllerrevision": appsv1.SchemeGroupVersion.WithKind("ControllerRevision"),
	"job":                batchv1.SchemeGroupVersion.WithKind("Job"),
	"deployment":         appsv1.SchemeGroupVersion.WithKind("Deployment"),
	"statefulset":        appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
	"daemonset":          appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
	"cronjob":            batchv1.SchemeGroupVersion.WithKind("CronJob"),
	"rollout":            {Group: "argoproj.io", Version: "v1alpha1", Kind: "Rollout"},
}

var (
	workloadKinds = []string{"deployment", "statefulset", "daemonset", "cronjob", "rollout"}
	holderKinds   = []string{"replicaset", "controllerrevision", "job"}
	sourceKinds   = []string{"configmap", "secret"}
	// watchedKinds are all that can show a broken promise.
	watchedKinds = slices.Concat(sourceKinds, holderKinds, workloadKinds, []string{"pod"})
)

// ref names an object as kubectl does: "deployment/web".
type ref string

func (r ref) kind() string { kind, _, _ := strings.Cut(string(r), "/"); return kind }
func (r ref) name() string { _, name, _ := strings.Cut(string(r), "/"); return name }

// source returns the name of a source in the form of pins.
func (r ref) source() pin.Source { return pin.Source{Kind: pin.Kind(r.kind()), Name: r.name()} }

// object returns the object of this name, empty.
func (r ref) object() *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kinds[r.kind()])
	obj.SetName(r.name())
	return obj
}

// refOf returns the name of an object.
func refOf(obj *unstructured.Unstructured) ref {
	return ref(strings.ToLower(obj.GetKind()) + "/" + obj.GetName())
}

// templatePath returns the path of the pod template in objects of a kind. A pod is its own.
func templatePath(kind string) []string {
	switch kind {
	case "cronjob":
		return []string{"spec", "jobTemplate", "spec", "template"}
	case "controllerrevision":
		return []string{"data", "spec", "template"}
	case "pod":
		return nil
	}
	return []string{"spec", "template"}
}

// templateOf returns the pod template of a workload, a holder or a pod.
func templateOf(obj *unstructured.Unstructured) map[string]any {
	template, _, err := unstructured.NestedFieldNoCopy(obj.Object, templatePath(strings.ToLower(obj.GetKind()))...)
	if err != nil {
		return nil
	}
	fields, _ := template.(map[string]any)
	return fields
}

// field reads a text of an object by its path, and returns "" if there is none.
func field(object map[string]any, path ...string) string {
	value, _, err := unstructured.NestedFieldNoCopy(object, path...)
	if err != nil {
		return ""
	}
	text, _ := value.(string)
	return text
}
