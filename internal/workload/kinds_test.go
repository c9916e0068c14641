package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fleet is a configured kind.
var fleet = Kind{
	GVK:    schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Fleet"},
	Path:   "spec.template",
	Holder: HolderKind{GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "FleetSet"}, Path: "spec.template"},
}

func TestKinds(t *testing.T) {
	all := &Kinds{}
	if len(all.All())+len(all.Holders())+len(all.Referring()) > 0 || all.IsUser(metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment"}) {
		t.Error("before any kind is at work, there are some")
	}
	for _, kind := range []Kind{Deployment, StatefulSet, DaemonSet, Rollout, fleet} {
		before := all.All()
		n := len(before)
		all.Add(kind)
		if len(before) != n || len(all.All()) != n+1 || all.All()[n] != kind {
			t.Errorf("%s was added to %v, which gave %v", kind.Resource(), before, all.All())
		}
	}
	wantHolders := []HolderKind{ReplicaSet, ControllerRevision, fleet.Holder}
	if diff := cmp.Diff(wantHolders, all.Holders()); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Kind{Rollout}, all.Referring()); diff != "" {
		t.Errorf("referring (-want +got):\n%s", diff)
	}
	if len(all.All()) != 5 {
		t.Errorf("asking for some changed all: %v", all.All())
	}
	all.Expect(CronJob, Rollout)
	if diff := cmp.Diff([]Kind{Deployment, StatefulSet, DaemonSet, Rollout, fleet, CronJob}, all.Known()); diff != "" || len(all.All()) != 5 {
		t.Errorf("known (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(append(wantHolders, Job), HoldersOf(all.Known())); diff != "" {
		t.Errorf("holders of all that are known (-want +got):\n%s", diff)
	}
	tests := map[string]struct {
		apiVersion, kind string
		workload, user   bool
	}{
		"a Deployment":                    {"apps/v1", "Deployment", true, true},
		"one of an older version":         {"apps/v1beta2", "Deployment", true, true},
		"one of another group":            {"example.com/v1", "Deployment", false, false},
		"a Rollout":                       {"argoproj.io/v1alpha1", "Rollout", true, true},
		"a configured kind":               {"example.com/v2", "Fleet", true, true},
		"its holder":                      {"example.com/v1", "FleetSet", false, true},
		"a ReplicaSet":                    {"apps/v1", "ReplicaSet", false, true},
		"a ControllerRevision":            {"apps/v1", "ControllerRevision", false, true},
		"a Job of a kind that is not run": {"batch/v1", "Job", false, false},
		"a kind that is not run":          {"batch/v1", "CronJob", false, false},
		"the anchor":                      {"v1", "ConfigMap", false, false},
		"nothing":                         {"", "", false, false},
		"a version that is none":          {"a/b/c", "Deployment", false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reference := metav1.OwnerReference{APIVersion: test.apiVersion, Kind: test.kind}
			kind, known := all.Of(reference)
			if known != test.workload || known && kind.GVK.Kind != test.kind {
				t.Errorf("it is a %v: %v", kind, known)
			}
			if all.IsWorkload(reference) != test.workload || all.IsUser(reference) != test.user {
				t.Errorf("IsWorkload = %v, IsUser = %v", all.IsWorkload(reference), all.IsUser(reference))
			}
		})
	}
}
