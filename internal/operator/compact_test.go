package operator

import (
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/workload"
)

// handled is a configured kind.
var handled = workload.Kind{
	GVK:    schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Fleet"},
	Path:   "spec.template",
	Holder: workload.HolderKind{GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "FleetSet"}, Path: "spec.template"},
}

// Weight: of all that goes into the cache, only what is read stays.
func TestCompactByKind(t *testing.T) {
	transform := compact(append(workload.Standard(), handled))
	dressed := func(obj client.Object) client.Object {
		obj.SetName("web")
		obj.SetLabels(map[string]string{"app": "web"})
		obj.SetAnnotations(map[string]string{"other": "x", corev1.LastAppliedConfigAnnotation: "{}"})
		obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
		return obj
	}
	partial := func(apiVersion, kind string) client.Object {
		return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}}
	}
	custom := func(gvk schema.GroupVersionKind) client.Object {
		obj := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"x": "y"}}}
		obj.SetGroupVersionKind(gvk)
		return obj
	}
	tests := map[string]struct {
		obj                 client.Object
		labels, annotations bool // whether those of others stay
		untouched           bool
	}{
		"a Deployment":              {obj: &appsv1.Deployment{}, labels: true, annotations: true},
		"a StatefulSet":             {obj: &appsv1.StatefulSet{}, labels: true, annotations: true},
		"a DaemonSet":               {obj: &appsv1.DaemonSet{}, labels: true, annotations: true},
		"a CronJob":                 {obj: &batchv1.CronJob{}, labels: true, annotations: true},
		"a Rollout":                 {obj: custom(workload.Rollout.GVK), labels: true, annotations: true},
		"a configured kind":         {obj: custom(handled.GVK), labels: true, annotations: true},
		"a reduced holder":          {obj: partial("apps/v1", "ReplicaSet"), untouched: true, labels: true, annotations: true},
		"a ConfigMap's metadata":    {obj: partial("v1", "ConfigMap")},
		"a Secret's metadata":       {obj: partial("v1", "Secret")},
		"a namespace":               {obj: partial("v1", "Namespace")},
		"another object's metadata": {obj: partial("v1", "PersistentVolumeClaim")},
		"what no one knows stays":   {obj: custom(schema.GroupVersionKind{Group: "x", Version: "v1", Kind: "Y"}), untouched: true, labels: true, annotations: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := transform(dressed(test.obj))
			obj, ok := got.(client.Object)
			if err != nil || !ok || obj.GetName() != "web" {
				t.Fatalf("%T, %v", got, err)
			}
			if (obj.GetLabels()["app"] != "") != test.labels || (obj.GetAnnotations()["other"] != "") != test.annotations {
				t.Errorf("labels %v and annotations %v stay", obj.GetLabels(), obj.GetAnnotations())
			}
			if stays := len(obj.GetManagedFields()) > 0 || obj.GetAnnotations()[corev1.LastAppliedConfigAnnotation] != ""; stays != test.untouched {
				t.Errorf("managed fields %v and annotations %v stay", obj.GetManagedFields(), obj.GetAnnotations())
			}
			if u, ok := obj.(*unstructured.Unstructured); ok {
				_, stays, err := unstructured.NestedString(u.Object, "status", "x")
				if stays != test.untouched || err != nil {
					t.Errorf("its status: %v %v", u.Object["status"], err)
				}
			}
		})
	}
	// client-go also hands over what it lost sight of.
	if got, err := transform("a tombstone"); got != "a tombstone" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// Whatever confrev reads of a namespace stays in the cache.
func TestWhatANamespaceSaysStays(t *testing.T) {
	said := map[string]string{
		keys.Owners: "true", keys.Advance: "manual", keys.FreezeUntil: "2027-01-04", keys.Window: "0 9 * * 1-5 8h", keys.Deploys: "include", keys.Safety: "careful",
		keys.Steps: "1", keys.MaxRolling: "1", keys.Bake: "1h", keys.OnFailure: "stop", keys.StopAfter: "2", keys.Analysis: "errors", keys.After: "staging",
	}
	for key := range said {
		if !slices.Contains(optin.NamespaceKeys, key) {
			t.Errorf("%s is not read", key)
		}
	}
	if len(said) != len(optin.NamespaceKeys) {
		t.Errorf("this test knows %d of %d annotations", len(said), len(optin.NamespaceKeys))
	}
	meta := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
	meta.Annotations = map[string]string{"another": "one"}
	maps.Copy(meta.Annotations, said)
	compactMetadata(meta)
	if !maps.Equal(meta.Annotations, said) {
		t.Errorf("%v stay", meta.Annotations)
	}
}

func TestOfANamespaceOnlyItsTrackLabelStays(t *testing.T) {
	for name, labels := range map[string]map[string]string{"opted in": {keys.Track: "all"}, "not opted in": nil} {
		meta := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
		meta.Labels = map[string]string{"kubernetes.io/metadata.name": "default"}
		maps.Copy(meta.Labels, labels)
		compactMetadata(meta)
		if len(meta.Labels) != len(labels) || meta.Labels[keys.Track] != labels[keys.Track] {
			t.Errorf("%s: labels %v", name, meta.Labels)
		}
	}
}
