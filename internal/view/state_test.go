package view

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/waiting"
	"confrev.io/confrev/test/gen"
)

var (
	app = pin.Source{Kind: pin.ConfigMap, Name: "app"}
	one = pin.Pin{Revision: "app-a", Number: 1}
	two = pin.Pin{Revision: "app-b", Number: 2}
	// raised is the revision of two, which was current again (rule 5).
	raised = pin.Pin{Revision: "app-b", Number: 4}
)

func TestJudge(t *testing.T) {
	on := func(p pin.Pin) pin.Set { return pin.Set{app: p} }
	decided := func(verdict plan.Verdict, from, to pin.Pin) plan.Decision {
		return plan.Decision{Source: app, Verdict: verdict, From: from, To: to, Current: two}
	}
	waits := decided(plan.Waiting, one, one)
	waits.Wait = waiting.Wait{Reason: waiting.OnDeploy, By: "annotation confrev.io/advance"}
	for name, test := range map[string]struct {
		decision plan.Decision
		progress progress
		want     State
		says     string
	}{
		"rolled out, and every pod carries it":        {decided(plan.InSync, two, two), progress{pods: []pin.Set{on(two)}}, RolledOut, ""},
		"rolled out, without pods":                    {decided(plan.InSync, two, two), progress{}, RolledOut, ""},
		"being rolled out":                            {decided(plan.InSync, two, two), progress{rolling: "1 of 2"}, Advancing, "1 of 2"},
		"not pinned yet":                              {decided(plan.Advanced, one, two), progress{}, Advancing, "not pinned yet"},
		"first pin to come":                           {decided(plan.Pinned, pin.Pin{}, two), progress{}, Advancing, "not pinned yet"},
		"a pod has another pin":                       {decided(plan.InSync, two, two), progress{pods: []pin.Set{on(two), on(one)}}, NotResolved, "1 of 2 pods do not carry the pin"},
		"a pod has no pin":                            {decided(plan.InSync, two, two), progress{pods: []pin.Set{{}}}, NotResolved, "1 of 1 pods do not carry the pin"},
		"a pod has the number from before it rose":    {decided(plan.InSync, raised, raised), progress{pods: []pin.Set{on(two)}}, RolledOut, ""},
		"an optional source is absent":                {decided(plan.Absent, pin.Pin{}, pin.Pin{}), progress{pods: []pin.Set{{}}}, RolledOut, ""},
		"held, however far the rollback is":           {decided(plan.Held, one, one), progress{rolling: "1 of 2"}, Held, "rolled back; stays until the source changes, a deploy changes code that was undone, or it is resumed"},
		"failed":                                      {decided(plan.InSync, two, two), progress{rolling: "out of time", failed: true}, Failed, "out of time"},
		"failed before, and a fix is on its way":      {decided(plan.Advanced, one, two), progress{rolling: "out of time", failed: true}, Advancing, "not pinned yet"},
		"held, and the rollback failed":               {decided(plan.Held, one, one), progress{rolling: "out of time", failed: true}, Failed, "out of time"},
		"being rolled out, until a person acts":       {decided(plan.InSync, two, two), progress{rolling: "pods below partition 1 stay", needs: true}, Waiting, "pods below partition 1 stay"},
		"only unused keys changed":                    {decided(plan.InSync, one, one), progress{}, RolledOut, "only keys that it does not use have changed since"},
		"waits for approval":                          {waits, progress{}, Waiting, "waits for a deploy (annotation confrev.io/advance)"},
		"paused before the change":                    {decided(plan.Advanced, one, two), progress{paused: "spec.paused is set"}, Paused, "spec.paused is set"},
		"paused in during a rollout":                  {decided(plan.InSync, two, two), progress{paused: "spec.paused is set", rolling: "1 of 2"}, Paused, "spec.paused is set"},
		"paused with nothing left to do":              {decided(plan.InSync, two, two), progress{paused: "spec.paused is set"}, RolledOut, ""},
		"source missing, which goes before the pause": {decided(plan.SourceMissing, pin.Pin{}, pin.Pin{}), progress{paused: "waits"}, Missing, "configmap/app does not exist; new pods cannot start until it is created"},
		"key missing":                                 {plan.Decision{Source: app, Verdict: plan.KeyMissing, Keys: []string{"a", "b"}}, progress{}, Missing, `configmap/app lacks ["a" "b"], which a container requires; the workload continues once it has it`},
		"not to be seen":                              {decided(plan.Unknown, one, one), progress{}, Unknown, "could not be looked at"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, says := test.progress.judge(test.decision); got != test.want || says != test.says {
				t.Errorf("got %s %q, want %s %q", got, says, test.want, test.says)
			}
		})
	}
}

func TestWorst(t *testing.T) {
	if got := worst([]SourceStatus{{State: RolledOut}, {State: Advancing}, {State: Missing}, {State: Held}}); got != Missing {
		t.Error(got)
	}
	if got := worst(nil); got != Untracked {
		t.Error(got)
	}
}

func TestSourceCountsPodsFromTheNewestNumber(t *testing.T) {
	p := progress{pods: []pin.Set{{app: one}, {app: two}, {}, {app: two}}}
	got := p.source(plan.Decision{Source: app, Verdict: plan.InSync, From: two, To: two, Current: two})
	want := []PodCount{{revisionName(two), 2}, {revisionName(one), 1}, {nil, 1}}
	if diff := cmp.Diff(want, got.Pods); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Kinds are listed one by one, so a hold that only holders show may be none.
func TestHoldsThatNoNoteConfirmsAreInferred(t *testing.T) {
	web := gen.Deployment("web")
	for name, test := range map[string]struct {
		note  string
		state State
		want  bool
	}{
		"held, and noted":                  {"configmap/app=app-b@2", Held, false},
		"held, and another source's noted": {"configmap/other=other-b@2", Held, true},
		"held, and nothing noted":          {"", Held, true},
		"rolled out":                       {"", RolledOut, false},
	} {
		t.Run(name, func(t *testing.T) {
			web.Annotations = map[string]string{keys.Held: test.note}
			if got := inferred(web, []SourceStatus{{Source: app.String(), State: test.state}}); got != test.want {
				t.Errorf("inferred is %t", got)
			}
		})
	}
}

// A wait ends when a person has to act; confrev ends a pause of its own.
func TestWhatEndsAWait(t *testing.T) {
	for name, test := range map[string]struct {
		item  WorkloadStatus
		stays bool
	}{
		"missing":              {WorkloadStatus{State: Missing}, true},
		"failed":               {WorkloadStatus{State: Failed}, true},
		"held":                 {WorkloadStatus{State: Held}, true},
		"paused":               {WorkloadStatus{State: Paused}, true},
		"paused by confrev":    {WorkloadStatus{State: Paused, resumes: true}, false},
		"waiting for a person": {WorkloadStatus{State: Waiting, Sources: []SourceStatus{{State: Waiting, WaitsFor: &WaitsFor{Reason: waiting.Manual}}}}, true},
		"waiting for a time":   {WorkloadStatus{State: Waiting, Sources: []SourceStatus{{State: RolledOut}, {State: Waiting, WaitsFor: &WaitsFor{Reason: waiting.Frozen, Until: &metav1.Time{}}}}}, false},
		"waiting for both":     {WorkloadStatus{State: Waiting, Sources: []SourceStatus{{State: Waiting, WaitsFor: &WaitsFor{Until: &metav1.Time{}}}, {State: Waiting, WaitsFor: &WaitsFor{}}}}, true},
		"may not be seen":      {WorkloadStatus{State: Unknown}, true},
		"at a partition":       {WorkloadStatus{State: Waiting, Sources: []SourceStatus{{State: Waiting}}}, true},
		"advancing":            {WorkloadStatus{State: Advancing}, false},
		"not resolved":         {WorkloadStatus{State: NotResolved}, false},
		"rolled out":           {WorkloadStatus{State: RolledOut}, false},
	} {
		list := &StatusList{Items: []WorkloadStatus{{State: RolledOut}, test.item}}
		if list.NeedsAction() != test.stays || list.Failed() != (test.item.State == Failed) {
			t.Errorf("%s: stays %t, failed %t", name, list.NeedsAction(), list.Failed())
		}
	}
}

func TestExplainVerdict(t *testing.T) {
	for name, test := range map[string]struct {
		decision plan.Decision
		want     string
	}{
		"in sync":                   {plan.Decision{Verdict: plan.InSync, From: two, To: two}, "nothing that the workload uses changes"},
		"rolled out with a deploy":  {plan.Decision{Verdict: plan.InSync, From: one, To: two}, "rolled out to revision 2 with the workload"},
		"pinned for the first time": {plan.Decision{Verdict: plan.Pinned, To: one}, "pinned for the first time, to revision 1"},
		"pinned while the change is stopped": {plan.Decision{Verdict: plan.Pinned, To: one, Current: two, Wait: waiting.ForStop("configmap/app")},
			"pinned for the first time, to revision 1, since the change to revision 2 was stopped"},
		"pinned to what is stopped": {plan.Decision{Verdict: plan.Pinned, To: two, Current: two, Wait: waiting.ForStop("configmap/app")}, "pinned for the first time, to revision 2"},
		"advanced":                  {plan.Decision{Verdict: plan.Advanced, From: one, To: two}, "revision 1 -> 2"},
		"held":                      {plan.Decision{Verdict: plan.Held, From: one, To: one}, "held at revision 1: it was rolled back from this content"},
		"waiting":                   {plan.Decision{Verdict: plan.Waiting, From: one, To: one}, "waits at revision 1 until the controller advances it"},
		"a key missing":             {plan.Decision{Verdict: plan.KeyMissing, Keys: []string{"a"}}, `lacks ["a"], which a container requires; the workload continues once it has it`},
		"a pinned source missing": {plan.Decision{Source: app, Verdict: plan.SourceMissing, From: pin.Pin{Revision: "app-bbbbbbbbbb", Number: 1}},
			"does not exist any more; pods keep using its revision app-bbbbbbbbbb@1"},
		"an object that restarts missing": {plan.Decision{Source: app, Verdict: plan.SourceMissing, From: pin.Pin{Revision: "v1-bbbbbbb", Number: 1}}, "does not exist any more"},
		"the source missing":              {plan.Decision{Verdict: plan.SourceMissing}, "does not exist; new pods cannot start until it is created"},
		"optional and absent":             {plan.Decision{Verdict: plan.Absent}, "does not exist, and is optional"},
		"optional, and absent since":      {plan.Decision{Verdict: plan.Absent, From: one, To: two}, "does not exist, and is optional: pinned to revision 2, which is empty"},
		"not known":                       {plan.Decision{Verdict: plan.Unknown}, "could not be looked at"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ExplainVerdict(test.decision); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
