package rollout

import (
	"testing"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// Policy rotate: pods are restarted without an update only where that is asked for, it takes nothing else, and there are two.
func TestRestartInstead(t *testing.T) {
	cert, db := gen.Source("secret/cert"), gen.Source("secret/db")
	changed := func(source pin.Source) plan.Decision {
		return plan.Decision{Source: source, Verdict: plan.Advanced, From: pin.Pin{Revision: "aaa", Number: 1}, To: pin.Pin{Revision: "bbb", Number: 2}}
	}
	unchanged := plan.Decision{Source: db, Verdict: plan.InSync, From: pin.Pin{Revision: "aaa", Number: 1}, To: pin.Pin{Revision: "aaa", Number: 1}}
	tests := map[string]struct {
		kind         workload.Kind // Rollout when it is not given
		replicas     int64
		unasked      bool
		hashes, pins []plan.Decision
		release      bool
		want         bool
	}{
		"a rotation":                      {replicas: 2, hashes: []plan.Decision{changed(cert), unchanged}, want: true},
		"not asked for":                   {replicas: 2, unasked: true, hashes: []plan.Decision{changed(cert)}},
		"one replica":                     {replicas: 1, hashes: []plan.Decision{changed(cert)}},
		"of another kind":                 {kind: workload.StatefulSet, replicas: 2, hashes: []plan.Decision{changed(cert)}},
		"nothing changed":                 {replicas: 2, hashes: []plan.Decision{unchanged}},
		"something else changed too":      {replicas: 2, hashes: []plan.Decision{changed(cert), changed(db)}},
		"a pin moves too":                 {replicas: 2, hashes: []plan.Decision{changed(cert)}, pins: []plan.Decision{changed(gen.Source("configmap/app"))}},
		"pins go":                         {replicas: 2, hashes: []plan.Decision{changed(cert)}, release: true},
		"the template gets its first one": {replicas: 2, hashes: []plan.Decision{{Source: cert, To: pin.Pin{Revision: "bbb", Number: 1}}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := &Engine{Kind: test.kind}
			if test.kind == (workload.Kind{}) {
				r.Kind = workload.Rollout
			}
			obj := unstructuredOf(r.Kind.GVK, "web", map[string]any{"replicas": test.replicas})
			seen := newObserved(gen.Namespace, view{})
			seen.config, seen.rotating[cert] = optin.Config{RestartAt: !test.unasked}, true
			want := intent{release: test.release, pins: plan.Plan{Pins: pin.Set{}, Decisions: test.pins}, hashes: plan.Plan{Pins: pin.Set{}, Decisions: test.hashes}}
			changes := want.changes()
			want.restartInstead(r.Kind, obj, seen)
			if want.restart != test.want || want.changes() == test.want && changes {
				t.Fatalf("restarts: %v, changes the template: %v", want.restart, want.changes())
			}
			if noted := want.workloadHashes(seen)[cert]; test.want && noted != (pin.Pin{Revision: "bbb", Number: 2}) {
				t.Errorf("noted %s", noted)
			}
		})
	}
}
