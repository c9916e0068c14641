package fleet

import (
	"testing"
	"time"

	"confrev.io/confrev/internal/analysis"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/workload"
)

// Rule 40: nothing is a failure of the change that its controller has not looked at. The controller may be away.
func TestWhatNoControllerHasSeenIsNoFailure(t *testing.T) {
	c, s := &change{}, surveyed(0)
	c.begin(s)
	unseen := workload.Health{Disturbed: true, Unseen: true, Progress: workload.Progress{Left: "its controller has not seen the change yet"}}
	for _, step := range []struct {
		health workload.Health
		after  time.Duration
		want   spread.Stage
	}{
		{unseen, 0, spread.Rolling}, {unseen, time.Hour, spread.Rolling}, {rolling, time.Hour, spread.Rolling},
		{rolling, time.Hour + 9*time.Minute, spread.Rolling}, {rolling, time.Hour + 10*time.Minute, spread.Failed},
	} {
		if m := c.member(s, "web", has(step.health), noon.Add(step.after)); m.Stage != step.want || m.Fails != (step.want == spread.Failed) {
			t.Errorf("after %s: %s, fails: %v", step.after, m.Stage, m.Fails)
		}
	}
}

// Rule 40: a workload that was not healthy before it took the change does not fail with it.
func TestAWorkloadThatWasUnwellDoesNotFail(t *testing.T) {
	undone, analysed := rolledBack(true, "app-b"), has(recorded)
	analysed.Analysis, analysed.Subject.At = []string{"error-rate"}, noon
	for name, of := range map[string]rollout.Standing{"someone rolled it back": undone, "its analysis failed": analysed} {
		for _, unwell := range []bool{false, true} {
			of.Advance.Unwell = unwell
			c, s := &change{analyses: true}, surveyed(0)
			c.begin(s)
			c.note(Analysis{Member: "web", Template: "error-rate", Subject: of.Subject}, analysis.Failed, "")
			if m := c.member(s, "web", of, noon.Add(time.Hour)); m.Fails == unwell || m.Stage == spread.Failed && unwell {
				t.Errorf("%s, unwell before: %v; it is %s, fails: %v", name, unwell, m.Stage, m.Fails)
			}
		}
	}
}

// Rule 40: what confrev rolls back because a change is stopped is no failure. For a source that moved together with the one that is stopped, it is what stops
// the change, too, once.
func TestWhatConfrevRollsBackIsNoFailure(t *testing.T) {
	for name, test := range map[string]struct {
		stop, stops int
		fails       bool
	}{
		"someone rolled it back":                          {0, 0, true},
		"someone rolled it back while it was stopped":     {0, 1, true},
		"confrev, because of a stop":                      {1, 1, false},
		"confrev, because of an earlier one":              {1, 2, false},
		"confrev, because of that of another source":      {1, 0, true},
		"confrev, because of that of another source, now": {2, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := &change{}, surveyed(0)
			s.Record.Stops = test.stops
			c.begin(s)
			of := rolledBack(true, "app-b")
			of.Stop = test.stop
			if m := c.member(s, "web", of, noon); m.Fails != test.fails || m.ByStop != (test.stop > 0) {
				t.Errorf("it fails: %v, by a stop: %v", m.Fails, m.ByStop)
			}
		})
	}
}

// Rules 43 and 44: a workload vouches for content that it did not take as a change, once its analysis has succeeded, whatever it notes of other sources.
func TestTheAnalysisOfContentThatWasThereBefore(t *testing.T) {
	of := has(recorded)
	of.Advance, of.Analysis, of.Subject.At = spread.Advance{Unwell: true}, []string{"error-rate"}, noon.Add(-time.Hour)
	c, s := &change{analyses: true}, surveyed(0)
	c.begin(s)
	if m := c.member(s, "web", of, noon.Add(time.Hour)); m.Stage != spread.Baking {
		t.Errorf("before the analysis has ended, it is %s", m.Stage)
	}
	c.note(Analysis{Member: "web", Template: "error-rate", Subject: of.Subject}, analysis.Successful, "")
	if m := c.member(s, "web", of, noon.Add(time.Hour)); m.Stage != spread.Vouched {
		t.Errorf("afterwards, it is %s: %s", m.Stage, m.Why)
	}
}

// Rule 44: a namespace does not vouch for content that one of its workloads cannot take.
func TestAWorkloadThatLacksAKeySpeaksAgainstTheChange(t *testing.T) {
	for verdict, against := range map[plan.Verdict]bool{plan.KeyMissing: true, plan.SourceMissing: true, plan.Waiting: false} {
		c, s := &change{}, surveyed(0)
		c.begin(s)
		lacking := c.member(s, "web", rollout.Standing{Decision: plan.Decision{Verdict: verdict}}, noon)
		s.Spread = spread.Look([]spread.Member{lacking, {Name: "other", Stage: spread.Vouched}}, s.Settings, 0, spread.Place{})
		if lacking.Stage != spread.Apart || s.Vouches() == against || (len(s.Against()) > 0) != against {
			t.Errorf("%s: it is %s; the namespace vouches: %v, against it: %v", verdict, lacking.Stage, s.Vouches(), s.Against())
		}
	}
}

// Rules 37 and 40: what becomes of a workload after it has vouched is no failure of the change, for a process that comes later either.
func TestALaterProcessKnowsWhoHasVouched(t *testing.T) {
	lost := workload.Health{Progress: workload.Progress{Left: "3 of 4 pods are available"}}
	record := spread.Record{Revision: "uid", Number: 2, Proven: spread.Place{Name: "web"}, ProvenAt: noon.Add(time.Minute).Unix()}
	unwell, late := has(lost), has(lost)
	unwell.Advance.Unwell = true
	late.Advance.At = noon.Add(2 * time.Minute)
	for name, test := range map[string]struct {
		of     rollout.Standing
		record spread.Record
		want   spread.Stage
	}{
		"it had vouched":                             {has(lost), record, spread.Vouched},
		"nothing was recorded":                       {has(lost), spread.Record{}, spread.Failed},
		"it took the change since":                   {late, record, spread.Failed},
		"it was not healthy before":                  {unwell, record, spread.Unwell},
		"it runs no pods, so it had nothing to show": {has(idle), record, spread.Idle},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := &change{}, surveyed(0)
			s.Record = test.record
			c.begin(s)
			c.member(s, "web", test.of, noon.Add(24*time.Hour))
			c.fresh = false
			if m := c.member(s, "web", test.of, noon.Add(25*time.Hour)); m.Stage != test.want || m.Fails != (test.want == spread.Failed) {
				t.Errorf("it is %s, fails: %v; want %s", m.Stage, m.Fails, test.want)
			}
		})
	}
	// What the record says counts once: afterwards, this process knows better.
	c, s := &change{}, surveyed(0)
	c.begin(s)
	c.member(s, "web", has(idle), noon)
	c.fresh, s.Record = false, record
	if m := c.member(s, "web", has(lost), noon.Add(time.Hour)); m.Stage != spread.Rolling {
		t.Errorf("scaled up since, it is %s", m.Stage)
	}
}
