package metadata

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Two objects of one controller share its texts and flags, and say what they said before.
func TestShare(t *testing.T) {
	owned := func() *metav1.PartialObjectMetadata {
		fresh := strings.Clone
		controls, blocks := true, false
		return &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: fresh("v1"), Kind: fresh("ConfigMap")},
			ObjectMeta: metav1.ObjectMeta{Name: fresh("app"), UID: "app-uid", ResourceVersion: "7", Namespace: fresh("team"), OwnerReferences: append(make([]metav1.OwnerReference, 0, 4), metav1.OwnerReference{
				APIVersion: fresh("apps/v1"), Kind: fresh("ReplicaSet"), Name: fresh("web-1"), UID: types.UID(fresh("uid")), Controller: &controls, BlockOwnerDeletion: &blocks,
			}, metav1.OwnerReference{Name: fresh("web-2"), UID: "uid-2"}, metav1.OwnerReference{Name: fresh("web-3"), UID: "uid-3"})},
		}
	}
	a, b := owned(), owned()
	Share(a)
	Share(b)
	if diff := cmp.Diff(owned(), a); diff != "" {
		t.Errorf("it says something else (-before +after):\n%s", diff)
	}
	if got := cap(a.OwnerReferences); got != 3 {
		t.Errorf("there is room for %d owners", got)
	}
	texts := func(m *metav1.PartialObjectMetadata) map[string]string {
		o := m.OwnerReferences[0]
		return map[string]string{"apiVersion": m.APIVersion, "kind": m.Kind, "namespace": m.Namespace,
			"owner's apiVersion": o.APIVersion, "owner's kind": o.Kind, "owner's name": o.Name, "owner's uid": string(o.UID)}
	}
	for name, text := range texts(a) {
		if unsafe.StringData(text) != unsafe.StringData(texts(b)[name]) {
			t.Errorf("each has its own %s", name)
		}
	}
	if x, y := a.OwnerReferences[1].Name, b.OwnerReferences[1].Name; unsafe.StringData(x) == unsafe.StringData(y) {
		t.Error("a copy was kept of what is no controller's")
	}
	if x, y := a.OwnerReferences[0], b.OwnerReferences[0]; x.Controller != y.Controller || x.BlockOwnerDeletion != y.BlockOwnerDeletion {
		t.Error("each has flags of its own")
	}
	for first, next := range map[string]string{a.Name: string(a.UID), string(a.UID): a.ResourceVersion, a.OwnerReferences[1].Name: string(a.OwnerReferences[1].UID), string(a.OwnerReferences[1].UID): a.OwnerReferences[2].Name} {
		if unsafe.Add(unsafe.Pointer(unsafe.StringData(first)), len(first)) != unsafe.Pointer(unsafe.StringData(next)) {
			t.Errorf("%s and %s are texts of their own", first, next)
		}
	}
	none := &metav1.PartialObjectMetadata{}
	if Share(none); none.OwnerReferences != nil {
		t.Error("nothing became an empty list")
	}
}
