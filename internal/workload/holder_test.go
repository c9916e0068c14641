package workload_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

var (
	created = metav1.NewTime(time.Unix(1_800_000_000, 0))
	deleted = metav1.NewTime(time.Unix(1_800_000_600, 0))
)

// dressed returns the metadata of a holder with all that one may have.
func dressed() metav1.ObjectMeta {
	grace := int64(30)
	yes := true
	return metav1.ObjectMeta{
		Namespace: "default", Name: "web-1", UID: types.UID("1"), ResourceVersion: "42", Generation: 3,
		CreationTimestamp: created, DeletionTimestamp: &deleted, DeletionGracePeriodSeconds: &grace,
		Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"deployment.kubernetes.io/revision": "7", "other": "x"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "0", Controller: &yes, BlockOwnerDeletion: &yes}},
		Finalizers:      []string{"example.com/keep"},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager"}},
	}
}

// patchOf returns what the controllers of StatefulSets and DaemonSets keep in a ControllerRevision
// (k8s.io/kubernetes/pkg/controller/statefulset, getPatch).
func patchOf(t testing.TB, template corev1.PodTemplateSpec) runtime.RawExtension {
	t.Helper()
	data, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	fields["$patch"] = "replace"
	raw, err := json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: raw}
}

// fleetSet returns a holder of a configured kind, as the API server has it.
func fleetSet(t testing.TB) *unstructured.Unstructured {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&appsv1.ReplicaSet{
		ObjectMeta: dressed(), Spec: appsv1.ReplicaSetSpec{Template: sample()}, Status: appsv1.ReplicaSetStatus{Replicas: 3},
	})
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{Object: fields}
	obj.SetGroupVersionKind(fleet.Holder.GVK)
	return obj
}

// Rules 4 and 12 need these few strings, before and after the holder went into the cache, however often.
func TestFactsOfEveryKindOfHolder(t *testing.T) {
	facts := func(order int64, first ...int64) workload.Facts {
		return workload.Facts{
			Order: order, First: append(first, 0)[0], Pins: "configmap/app=app-bbbbbbbbbb@1", Hashes: "secret/db=abc@2", References: []string{"configmap/app", "configmap/web", "secret/db"},
		}
	}
	argo := dressed()
	argo.Annotations = map[string]string{"rollout.argoproj.io/revision": "9"}
	both := dressed()
	both.Annotations["rollout.argoproj.io/revision"] = "9"
	thrice := dressed()
	thrice.Annotations["deployment.kubernetes.io/revision-history"] = "2,x,5"
	twice := metav1.ObjectMeta{Annotations: map[string]string{"rollout.argoproj.io/revision": "9", "rollout.argoproj.io/revision-history": "1"}}
	back := dressed()
	back.Annotations["rollout.argoproj.io/revision"] = "3"
	bare := gen.PodSpec()
	tests := map[string]struct {
		kind workload.HolderKind
		obj  client.Object
		want workload.Facts
	}{
		"a ReplicaSet of a Deployment": {workload.ReplicaSet, &appsv1.ReplicaSet{ObjectMeta: dressed(), Spec: appsv1.ReplicaSetSpec{Template: sample()}}, facts(7, 7)},
		"a ReplicaSet of a Rollout":    {workload.ReplicaSet, &appsv1.ReplicaSet{ObjectMeta: argo, Spec: appsv1.ReplicaSetSpec{Template: sample()}}, facts(9, 9)},
		"a ReplicaSet that was rolled out thrice": {
			workload.ReplicaSet, &appsv1.ReplicaSet{ObjectMeta: thrice, Spec: appsv1.ReplicaSetSpec{Template: sample()}}, facts(7, 2)},
		"a ReplicaSet of a Rollout that was rolled out twice": {
			workload.ReplicaSet, &appsv1.ReplicaSet{ObjectMeta: twice, Spec: appsv1.ReplicaSetSpec{Template: sample()}}, facts(9, 1)},
		"a ReplicaSet that a Rollout took over from a Deployment": {
			workload.ReplicaSet, &appsv1.ReplicaSet{ObjectMeta: both, Spec: appsv1.ReplicaSetSpec{Template: sample()}}, facts(9, 7)},
		"a ReplicaSet that a Deployment took over from a Rollout": {
			workload.ReplicaSet, &appsv1.ReplicaSet{ObjectMeta: back, Spec: appsv1.ReplicaSetSpec{Template: sample()}}, facts(7, 3)},
		"a ReplicaSet without a number": {workload.ReplicaSet, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web-1", CreationTimestamp: created}}, workload.Facts{}},
		"a ControllerRevision": {
			workload.ControllerRevision, &appsv1.ControllerRevision{ObjectMeta: dressed(), Revision: 5, Data: patchOf(t, sample())}, facts(5)},
		"a ControllerRevision of another kind of controller": {
			workload.ControllerRevision, &appsv1.ControllerRevision{ObjectMeta: dressed(), Revision: 5, Data: runtime.RawExtension{Raw: []byte(`{"spec":{"size":3}}`)}}, workload.Facts{Order: 5}},
		"a ControllerRevision that is no template": {
			workload.ControllerRevision, &appsv1.ControllerRevision{ObjectMeta: dressed(), Revision: 5, Data: runtime.RawExtension{Raw: []byte(`{"spec":[]}`)}}, workload.Facts{}},
		"a ControllerRevision without data": {workload.ControllerRevision, &appsv1.ControllerRevision{ObjectMeta: dressed(), Revision: 5}, workload.Facts{}},
		"a Job":                             {workload.Job, &batchv1.Job{ObjectMeta: dressed(), Spec: batchv1.JobSpec{Template: sample()}}, facts(created.UnixNano())},
		"a Job without references": {
			workload.Job, &batchv1.Job{ObjectMeta: dressed(), Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: *bare}}}, workload.Facts{Order: created.UnixNano()}},
		"a holder of a configured kind": {fleet.Holder, fleetSet(t), facts(created.UnixNano())},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			full, ok := test.obj.DeepCopyObject().(client.Object)
			if !ok {
				t.Fatal("no object")
			}
			test.want.Code = test.kind.Facts(test.obj).Code
			reduced := test.kind.Reduce(test.obj)
			twice := test.kind.Reduce(reduced)
			list := test.kind.NewList()
			if err := test.kind.Restore(list, []metav1.PartialObjectMetadata{*reduced}); err != nil {
				t.Fatal(err)
			}
			restored, err := meta.ExtractList(list)
			if err != nil || len(restored) != 1 {
				t.Fatal(restored, err)
			}
			for name, obj := range map[string]runtime.Object{"as it was": test.obj, "reduced": reduced, "reduced twice": twice, "restored": restored[0]} {
				obj, ok := obj.(client.Object)
				if !ok {
					t.Fatalf("%s, it is a %T", name, obj)
				}
				if diff := cmp.Diff(test.want, test.kind.Facts(obj)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
				checkIdentity(t, full, obj)
			}
			if want, got := reflect.TypeOf(test.obj), reflect.TypeOf(restored[0]); want != got {
				t.Errorf("restored as %s, want %s", got, want)
			}
			if reduced.Labels != nil || reduced.ManagedFields != nil || reduced.Annotations != nil || len(reduced.Finalizers) != 1 {
				t.Errorf("reduced, it has labels %v, %d managed fields, annotations %v, finalizers %q", reduced.Labels, len(reduced.ManagedFields), reduced.Annotations, reduced.Finalizers)
			}
			if diff := cmp.Diff(full, test.obj); diff != "" {
				t.Errorf("it changed (-before +after):\n%s", diff)
			}
			if stays, err := json.Marshal(reduced); err != nil || len(stays) > 900 {
				t.Errorf("%d bytes stay in memory: %s (%v)", len(stays), stays, err)
			}
		})
	}
}

// checkIdentity checks that an object is still the same one to the cache, the indexes and the garbage collector.
func checkIdentity(t *testing.T, want, got client.Object) {
	t.Helper()
	type identity struct {
		Namespace, Name, ResourceVersion string
		UID                              types.UID
		Created                          time.Time
		Deleted                          *metav1.Time
		Owners                           []metav1.OwnerReference
		Kind                             string
	}
	of := func(obj client.Object) identity {
		return identity{
			obj.GetNamespace(), obj.GetName(), obj.GetResourceVersion(), obj.GetUID(), obj.GetCreationTimestamp().UTC(),
			obj.GetDeletionTimestamp(), obj.GetOwnerReferences(), workload.GVKOf(obj).String(),
		}
	}
	if diff := cmp.Diff(of(want), of(got)); diff != "" {
		t.Errorf("it is not the same object any more (-before +after):\n%s", diff)
	}
}

// What holds a reduced holder's facts is nothing that anyone could set, or a holder could lie.
func TestNobodyCanWriteTheFactsOfAHolder(t *testing.T) {
	rs := gen.ReplicaSet("web-1", gen.Deployment("web", gen.Pinned("configmap/app=app-bbbbbbbbbb@1")), 4)
	for _, finalizer := range workload.ReplicaSet.Reduce(rs).Finalizers {
		if problems := apivalidation.ValidateFinalizerName(finalizer, nil); len(problems) == 0 {
			t.Errorf("the API server accepts finalizer %q", finalizer)
		}
	}
}

func TestCompactOfEveryKindOfWorkloadKeepsWhatIsRead(t *testing.T) {
	for _, kind := range every() {
		t.Run(kind.Resource(), func(t *testing.T) {
			obj := read(t, kind.New(), at(t, kind.GVK, kind.Path, sample()))
			obj.SetAnnotations(map[string]string{"confrev.io/track": "all", corev1.LastAppliedConfigAnnotation: "{}"})
			obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
			obj.SetLabels(map[string]string{"app": "web"})
			obj.SetGeneration(5)
			obj.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Owner", Name: "o", UID: "2"}})
			if o, ok := obj.(*unstructured.Unstructured); ok {
				o.Object["status"] = map[string]any{"replicas": int64(3), "selector": "app=web", "phase": map[string]any{}}
			}
			full, ok := obj.DeepCopyObject().(client.Object)
			if !ok {
				t.Fatal("no object")
			}
			kind.Compact(obj)
			kind.Compact(obj)
			checkIdentity(t, full, obj)
			want, _ := kind.Template(full)
			got, err := kind.Template(obj)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("the template, %v (-before +after):\n%s", err, diff)
			}
			if diff := cmp.Diff(map[string]string{"confrev.io/track": "all", corev1.LastAppliedConfigAnnotation: ""}, obj.GetAnnotations()); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if obj.GetManagedFields() != nil || obj.GetGeneration() != 5 || obj.GetLabels()["app"] != "web" {
				t.Errorf("compacted to %+v", obj)
			}
			if o, ok := obj.(*unstructured.Unstructured); ok && !cmp.Equal(o.Object["status"], map[string]any{"replicas": int64(3)}) {
				t.Errorf("the status is %v", o.Object["status"])
			}
		})
	}
}

func TestNewObjectsAndListsAreOfTheirKind(t *testing.T) {
	for _, kind := range every() {
		for _, of := range []struct {
			gvk  string
			obj  client.Object
			list client.ObjectList
		}{{kind.GVK.String(), kind.New(), kind.NewList()}, {kind.Holder.GVK.String(), kind.Holder.New(), kind.Holder.NewList()}} {
			if got := workload.GVKOf(of.obj).String(); got != of.gvk {
				t.Errorf("a new %s is a %s", of.gvk, got)
			}
			if list, ok := of.list.(*unstructured.UnstructuredList); ok && list.GetKind() != workload.GVKOf(of.obj).Kind+"List" {
				t.Errorf("a list of %s is a %s", of.gvk, list.GetKind())
			}
			if _, typed := of.obj.(*unstructured.Unstructured); typed {
				if _, typed := of.list.(*unstructured.UnstructuredList); !typed {
					t.Errorf("the list of unstructured %s is a %T", of.gvk, of.list)
				}
			}
		}
	}
	if got := workload.GVKOf(&corev1.ConfigMap{}); !got.Empty() {
		t.Errorf("a ConfigMap without a kind is a %s", got)
	}
}
