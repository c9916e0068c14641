package reconcile

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/workload"
)

// fleetKind is a configured kind.
var fleetKind = workload.Kind{
	GVK:    schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Fleet"},
	Path:   "spec.template",
	Holder: workload.HolderKind{GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "FleetSet"}, Path: "spec.template"},
}

func TestNamesOfKindsAreUnique(t *testing.T) {
	seen := map[string]bool{}
	other := fleetKind
	other.GVK.Kind, other.GVK.Group = "Deployment", "example.com"
	for _, kind := range append(workload.Standard(), fleetKind, other) {
		if n := name(kind); seen[n] || n != strings.ToLower(n) {
			t.Errorf("%s is called %q", kind.GVK, n)
		}
		seen[name(kind)] = true
	}
}
