package reconcile

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/rollout"
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

func TestSourceKindsAreThoseThatAreEnabled(t *testing.T) {
	for secrets, want := range map[bool][]pin.Kind{false: {pin.ConfigMap}, true: {pin.ConfigMap, pin.Secret}} {
		o := rollout.Options{Secrets: secrets}
		if diff := cmp.Diff(want, o.SourceKinds()); diff != "" {
			t.Errorf("secrets %v (-want +got):\n%s", secrets, diff)
		}
		if !o.Enabled(pin.ConfigMap) || o.Enabled(pin.Secret) != secrets || o.Enabled("persistentvolumeclaims.v1") {
			t.Errorf("secrets %v: the wrong kinds are enabled", secrets)
		}
	}
}

// A kind is spoken of when it becomes known that it is missing, and when it comes; not at every look.
func TestWhatBecomesOfAKindIsLoggedOnce(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	ctx := log.IntoContext(t.Context(), logger)
	a := &assembly{problems: map[schema.GroupVersionKind]string{}}
	for _, problem := range []string{"", "not served", "not served", "", ""} {
		a.report(ctx, workload.Rollout, problem)
	}
	if len(lines) != 2 || !strings.Contains(lines[0], "not handled for now") || !strings.Contains(lines[0], "not served") ||
		!strings.Contains(lines[1], "handled from now on") || strings.Contains(lines[1], "because") {
		t.Errorf("logged %q", lines)
	}
}
