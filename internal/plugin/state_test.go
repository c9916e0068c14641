package plugin

import (
	"fmt"
	"testing"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/test/gen"
)

var (
	app = pin.Source{Kind: pin.ConfigMap, Name: "app"}
	one = pin.Pin{Revision: "app-a", Number: 1}
	two = pin.Pin{Revision: "app-b", Number: 2}
	// raised is the revision of two, which was current once more (rule 5).
	raised = pin.Pin{Revision: "app-b", Number: 4}
)

func TestJudge(t *testing.T) {
	on := func(p pin.Pin) pin.Set { return pin.Set{app: p} }
	decided := func(verdict plan.Verdict, from, to pin.Pin) plan.Decision {
		return plan.Decision{Source: app, Verdict: verdict, From: from, To: to, Current: two}
	}
	for name, test := range map[string]struct {
		decision plan.Decision
		progress progress
		want     state
		says     string
	}{
		"rolled out, and every pod carries it":        {decided(plan.InSync, two, two), progress{pods: []pin.Set{on(two)}}, stateRolledOut, ""},
		"rolled out, without pods":                    {decided(plan.InSync, two, two), progress{}, stateRolledOut, ""},
		"being rolled out":                            {decided(plan.InSync, two, two), progress{rolling: "1 of 2"}, stateAdvancing, "1 of 2"},
		"not pinned yet":                              {decided(plan.Advanced, one, two), progress{}, stateAdvancing, "not pinned yet"},
		"first pin to come":                           {decided(plan.Pinned, pin.Pin{}, two), progress{}, stateAdvancing, "not pinned yet"},
		"a pod has another pin":                       {decided(plan.InSync, two, two), progress{pods: []pin.Set{on(two), on(one)}}, stateNotResolved, "1 of 2 pods do not carry the pin"},
		"a pod has no pin":                            {decided(plan.InSync, two, two), progress{pods: []pin.Set{{}}}, stateNotResolved, "1 of 1 pods do not carry the pin"},
		"a pod has the number from before it rose":    {decided(plan.InSync, raised, raised), progress{pods: []pin.Set{on(two)}}, stateRolledOut, ""},
		"an optional source is absent":                {decided(plan.Absent, pin.Pin{}, pin.Pin{}), progress{pods: []pin.Set{{}}}, stateRolledOut, ""},
		"held, however far the rollback is":           {decided(plan.Held, one, one), progress{rolling: "1 of 2"}, stateHeld, "rolled back; stays until the source changes, a deploy changes code that was undone, or it is resumed"},
		"failed":                                      {decided(plan.InSync, two, two), progress{rolling: "out of time", failed: true}, stateFailed, "out of time"},
		"failed before, and a fix is on its way":      {decided(plan.Advanced, one, two), progress{rolling: "out of time", failed: true}, stateAdvancing, "not pinned yet"},
		"held, and the rollback failed":               {decided(plan.Held, one, one), progress{rolling: "out of time", failed: true}, stateFailed, "out of time"},
		"being rolled out, until a person acts":       {decided(plan.InSync, two, two), progress{rolling: "pods below partition 1 stay", needs: true}, stateWaiting, "pods below partition 1 stay"},
		"only unused keys changed":                    {decided(plan.InSync, one, one), progress{}, stateRolledOut, "only keys that it does not use have changed since"},
		"waits for somebody":                          {decided(plan.Waiting, one, one), progress{advance: optin.OnDeploy}, stateWaiting, "confrev.io/advance: on-deploy"},
		"paused before the change":                    {decided(plan.Advanced, one, two), progress{paused: "spec.paused is set"}, statePaused, "spec.paused is set"},
		"paused in mid-rollout":                       {decided(plan.InSync, two, two), progress{paused: "spec.paused is set", rolling: "1 of 2"}, statePaused, "spec.paused is set"},
		"paused with nothing left to do":              {decided(plan.InSync, two, two), progress{paused: "spec.paused is set"}, stateRolledOut, ""},
		"source missing, which goes before the pause": {decided(plan.SourceMissing, pin.Pin{}, pin.Pin{}), progress{paused: "waits"}, stateMissing, "configmap/app does not exist"},
		"key missing":                                 {plan.Decision{Source: app, Verdict: plan.KeyMissing, Keys: []string{"a", "b"}}, progress{}, stateMissing, "configmap/app lacks a, b"},
		"not to be seen":                              {decided(plan.Unknown, one, one), progress{}, stateUnknown, "could not be seen"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, says := test.progress.judge(test.decision); got != test.want || says != test.says {
				t.Errorf("got %s %q, want %s %q", got, says, test.want, test.says)
			}
		})
	}
}

func TestWorst(t *testing.T) {
	if got := worst([]state{stateRolledOut, stateAdvancing, stateMissing, stateHeld}); got != stateMissing {
		t.Error(got)
	}
	if got := worst(nil); got != stateUntracked {
		t.Error(got)
	}
}

func TestSourceCountsPodsFromTheNewestNumber(t *testing.T) {
	p := progress{pods: []pin.Set{{app: one}, {app: two}, {}, {app: two}}}
	got := p.source(plan.Decision{Source: app, Verdict: plan.InSync, From: two, To: two, Current: two}, p.pods)
	if text := podsText(got.Pods); text != "2@2,1@1,1@live" {
		t.Error(text)
	}
}

func TestWhatIsLeftIsOneLine(t *testing.T) {
	report := &statusReport{}
	for i, s := range []state{stateRolledOut, stateHeld, stateAdvancing, stateUntracked, stateAdvancing, stateAdvancing, stateAdvancing} {
		report.list.Items = append(report.list.Items, WorkloadStatus{Workload: fmt.Sprint("deployment/", i), State: s, Message: "since"})
	}
	five := "deployment/1 is Held: since; deployment/2 is Advancing: since; deployment/4 is Advancing: since; deployment/5 is Advancing: since; " +
		"deployment/6 is Advancing: since"
	if got := report.left(); got != five {
		t.Errorf("got %s", got)
	}
	report.list.Items = append(report.list.Items, report.list.Items...)
	if got := report.left(); got != five+"; and 5 more" {
		t.Errorf("got %s", got)
	}
}

// Kinds are listed one by one, so a hold that only holders show may be none.
func TestHoldsThatNoNoteConfirmsAreInferred(t *testing.T) {
	web := gen.Deployment("web")
	for name, test := range map[string]struct {
		note  string
		state state
		want  bool
	}{
		"held, and noted":                  {"configmap/app=app-b@2", stateHeld, false},
		"held, and another source's noted": {"configmap/other=other-b@2", stateHeld, true},
		"held, and nothing noted":          {"", stateHeld, true},
		"rolled out":                       {"", stateRolledOut, false},
	} {
		t.Run(name, func(t *testing.T) {
			web.Annotations = map[string]string{keys.Held: test.note}
			status := WorkloadStatus{obj: web, Sources: []SourceStatus{{Source: app.String(), State: test.state}}}
			if got := status.inferred(); got != test.want {
				t.Errorf("inferred is %t", got)
			}
		})
	}
}

// A wait ends when a person has to act; confrev ends a pause of its own.
func TestWhatEndsAWait(t *testing.T) {
	for name, test := range map[string]struct {
		item   WorkloadStatus
		stays  bool
		status int
	}{
		"missing":           {WorkloadStatus{State: stateMissing}, true, 3},
		"failed":            {WorkloadStatus{State: stateFailed}, true, 4},
		"held":              {WorkloadStatus{State: stateHeld}, true, 3},
		"paused":            {WorkloadStatus{State: statePaused}, true, 3},
		"paused by confrev": {WorkloadStatus{State: statePaused, resumes: true}, false, 3},
		"waiting":           {WorkloadStatus{State: stateWaiting}, true, 3},
		"advancing":         {WorkloadStatus{State: stateAdvancing}, false, 3},
		"not resolved":      {WorkloadStatus{State: stateNotResolved}, false, 3},
		"rolled out":        {WorkloadStatus{State: stateRolledOut}, false, 3},
	} {
		report := &statusReport{list: StatusList{Items: []WorkloadStatus{{State: stateRolledOut}, test.item}}}
		if report.stays() != test.stays || report.status() != test.status {
			t.Errorf("%s: stays %t, status %d", name, report.stays(), report.status())
		}
	}
}

// Two numbers that differ are explained in the normal output, of five workloads at most.
func TestUnusedChangesAreExplained(t *testing.T) {
	report := &statusReport{}
	for i := range 7 {
		report.list.Items = append(report.list.Items, WorkloadStatus{Workload: fmt.Sprint("deployment/", i), Sources: []SourceStatus{
			{Source: "configmap/app", Pinned: revisionName(one), Message: onlyUnused}, {Source: "configmap/other", Pinned: revisionName(two)}}})
	}
	notes := report.since()
	if len(notes) != 6 || notes[0] != "deployment/0 stays on revision 1 of configmap/app: only keys that it does not use have changed since" ||
		notes[5] != "and 2 more; -o wide shows them" {
		t.Errorf("%q", notes)
	}
}
