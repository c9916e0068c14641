package reconcile

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestMemoryIsOfOneObjectAndNotOfItsName(t *testing.T) {
	all := &memories{}
	web := types.NamespacedName{Namespace: "default", Name: "web"}
	all.get(web, "1").generation = 5
	if got := all.get(web, "1").generation; got != 5 {
		t.Errorf("generation %d was remembered, want 5", got)
	}
	if got := all.get(web, "2"); got.generation != 0 || got.uid != "2" {
		t.Errorf("a new object of the same name has the memory of the old one: %+v", got)
	}
	all.get(web, "2").generation = 6
	all.forget(web)
	if got := all.get(web, "2").generation; got != 0 {
		t.Errorf("generation %d was not forgotten", got)
	}
}
