package workload

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// typed has the kinds that are read into Go types, which take less memory than unstructured objects.
var typed = runtime.NewScheme()

func init() {
	utilruntime.Must(appsv1.AddToScheme(typed))
	utilruntime.Must(batchv1.AddToScheme(typed))
}

// GVKOf returns the API kind of an object, even if a typed client has left it empty. It is empty for an object of another type.
func GVKOf(obj runtime.Object) schema.GroupVersionKind {
	gvk, err := apiutil.GVKForObject(obj, typed)
	if err != nil {
		return obj.GetObjectKind().GroupVersionKind()
	}
	return gvk
}

func newObject(gvk schema.GroupVersionKind) client.Object {
	if made, err := typed.New(gvk); err == nil {
		if obj, ok := made.(client.Object); ok {
			return obj
		}
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	return obj
}

func newList(gvk schema.GroupVersionKind) client.ObjectList {
	gvk.Kind += "List"
	if made, err := typed.New(gvk); err == nil {
		if list, ok := made.(client.ObjectList); ok {
			return list
		}
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk)
	return list
}

// templateOf returns the pod template of a workload or holder. path is where it is in an object of a configured kind.
func templateOf(obj client.Object, path string) (*corev1.PodTemplateSpec, error) {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template, nil
	case *appsv1.StatefulSet:
		return &o.Spec.Template, nil
	case *appsv1.DaemonSet:
		return &o.Spec.Template, nil
	case *appsv1.ReplicaSet:
		return &o.Spec.Template, nil
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template, nil
	case *batchv1.Job:
		return &o.Spec.Template, nil
	case *appsv1.ControllerRevision:
		return templateOfRevision(o)
	case *unstructured.Unstructured:
		return templateAt(o, path)
	}
	return nil, fmt.Errorf("a %T has no pod template that confrev knows", obj)
}

// templateOfRevision reads the template that a ControllerRevision of a StatefulSet or DaemonSet records: a patch of the whole
// template. Those of other kinds may hold anything.
func templateOfRevision(revision *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	patch := &unstructured.Unstructured{}
	if err := json.Unmarshal(revision.Data.Raw, &patch.Object); err == nil {
		if template, err := templateAt(patch, "spec.template"); err == nil {
			return template, nil
		}
	}
	// The errors may quote content, so they are not wrapped.
	return nil, fmt.Errorf("controllerrevision %s records no pod template", revision.Name)
}

// templateAt reads the pod template at a path of an object of any kind. If there is nothing, or null, the template is empty.
func templateAt(obj *unstructured.Unstructured, path string) (*corev1.PodTemplateSpec, error) {
	template := &corev1.PodTemplateSpec{}
	var content any = obj.Object
	for field := range strings.SplitSeq(path, ".") {
		fields, ok := content.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s has no pod template at %s", obj.GetKind(), path)
		}
		if content = fields[field]; content == nil {
			return template, nil
		}
	}
	fields, ok := content.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s of the %s is not a pod template", path, obj.GetKind())
	}
	if why := whyNotRead(fields); why != "" {
		return nil, fmt.Errorf("%s of the %s %s", path, obj.GetKind(), why)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, template); err != nil {
		return nil, fmt.Errorf("%s of the %s is not a pod template", path, obj.GetKind())
	}
	return template, nil
}
