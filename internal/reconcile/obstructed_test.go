package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/gate"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// A controller that takes pins away is left alone soon; a user who applies a manifest again and again, later.
func TestObstructed(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	d := gen.Deployment("web", gen.Pinned("configmap/app=app-bbbbbbbbbb@1"))
	open := &gate.Gate{}
	unchecked, closed := gate.NewGate(nil, "confrev", time.Now), gate.NewShut(errors.New("a policy is missing"))
	resolved, injected := rollout.Change{Text: "a pin", NeedsPolicies: true}, rollout.Change{Text: "a pin"}
	references := rollout.Change{Text: "a pin injected", OnlyInjects: true}
	tests := map[string]struct {
		change rollout.Change
		gate   *gate.Gate
		rounds int
		reason string
	}{
		"nothing to do":                       {rollout.Change{}, closed, 100, ""},
		"a pin":                               {resolved, open, 0, ""},
		"a pin that nothing resolves":         {resolved, closed, 0, notice.PoliciesNotReady},
		"before anything was checked":         {resolved, unchecked, 0, ""},
		"what needs no policies":              {injected, closed, 0, ""},
		"what needs none, before that":        {injected, unchecked, 0, ""},
		"a pin, undone often":                 {resolved, open, plan.MaxReverts - 1, ""},
		"a pin, undone too often":             {resolved, open, plan.MaxReverts, notice.Reverted},
		"references, undone as often":         {references, open, plan.MaxReverts, ""},
		"references, undone almost too often": {references, open, plan.MaxReapplied - 1, ""},
		"references, undone too often":        {references, open, plan.MaxReapplied, notice.Reverted},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := &Workloads{
				Engine: &rollout.Engine{
					Kind: workload.Deployment, Now: func() time.Time { return now }, Live: fake.NewClientBuilder().WithObjects(d.DeepCopy()).Build(),
				},
				Gate: test.gate, RolloutsPerHour: 100,
			}
			var known memory
			for range test.rounds {
				known.reverts.Wrote(test.change.Text, now)
			}
			wait, w := r.obstructed(t.Context(), d, test.change, &known)
			if w.Reason != test.reason || (wait > 0) != (test.reason != "" || test.gate == unchecked && test.change.NeedsPolicies) {
				t.Errorf("waits %s because %+v, want %q", wait, w, test.reason)
			}
			if test.reason == notice.Reverted && !strings.Contains(w.Text, fmt.Sprintf("%d times", test.rounds)) {
				t.Errorf("%q does not say how often", w.Text)
			}
		})
	}
}
