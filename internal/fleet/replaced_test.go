package fleet

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"confrev.io/confrev/internal/analysis"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/workload"
)

// become makes Deployment web of a survey another object, which was created at a time.
func (s *Survey) become(uid string, created time.Time) {
	w := s.Workloads["web"]
	w.UID, w.Created = types.UID(uid), created
	s.Workloads["web"] = w
}

// Rules 37, 40 and 44: what a workload has shown, another one of the same name has not.
func TestAWorkloadThatReplacesAnother(t *testing.T) {
	analysed, leads := has(recorded), has(healthy)
	analysed.Analysis = []string{"error-rate"}
	leads.Advance = spread.Advance{Unwell: true}
	slow := workload.Health{Disturbed: true, Progress: workload.Progress{Left: "0 of 1 pods are new"}}
	for name, test := range map[string]struct {
		before, after rollout.Standing
		shows         func(c *change)
		was, is       spread.Stage
	}{
		"one that has vouched":                        {before: has(healthy), after: has(healthy), was: spread.Vouched, is: spread.Baking},
		"one that vouched for what it had from birth": {before: leads, after: leads, was: spread.Vouched, is: spread.Baking},
		"one that made no progress":                   {before: has(slow), after: has(slow), was: spread.Failed, is: spread.Rolling},
		"one that crashed": {before: has(slow), after: has(slow), shows: func(c *change) { c.crashes("web", "old", "crashed") },
			was: spread.Failed, is: spread.Rolling},
		"one whose analysis failed": {before: analysed, after: analysed, shows: func(c *change) {
			c.note(Analysis{Member: "web", Template: "error-rate", Subject: analysed.Subject}, analysis.Failed, "")
		}, was: spread.Failed, is: spread.Baking},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := &change{analyses: true}, surveyed(time.Minute)
			c.begin(s)
			s.become("old", noon.Add(-time.Hour))
			c.member(s, "web", test.before, noon)
			if test.shows != nil {
				test.shows(c)
			}
			if m := c.member(s, "web", test.before, noon.Add(time.Hour)); m.Stage != test.was {
				t.Errorf("the first is %s: %s", m.Stage, m.Why)
			}
			s.become("new", noon.Add(time.Hour))
			if m := c.member(s, "web", test.after, noon.Add(time.Hour)); m.Stage != test.is {
				t.Errorf("the second is %s: %s", m.Stage, m.Why)
			}
			// What was found in the pods of the first comes too late.
			if c.crashes("web", "old", "crashed") {
				t.Error("what the first does counts for the second")
			}
		})
	}
}

// Rules 37 and 40: the same holds for a process that comes later, although a record names members. One of an earlier version is read as before.
func TestARecordSaysNothingOfAWorkloadThatReplacesAnother(t *testing.T) {
	lost := workload.Health{Progress: workload.Progress{Left: "3 of 4 pods are available"}}
	record, ok := spread.ParseRecord(`{"revision":"uid","number":2,"wave":0,"proven":{"wave":0,"name":"web"},"provenAt":1,"failed":["web@1"]}`)
	if !ok {
		t.Fatal("it cannot be read")
	}
	record.ProvenAt, record.Failed = noon.Add(time.Minute).Unix(), []spread.Failure{{Member: "web", Took: noon.Unix()}}
	for created, want := range map[time.Duration]spread.Stage{-time.Hour: spread.Vouched, time.Hour: spread.Rolling} {
		c, s := &change{}, surveyed(0)
		s.Record = record
		s.become("any", noon.Add(created))
		c.begin(s)
		m := c.member(s, "web", has(lost), noon.Add(2*time.Hour))
		m.Fails = true
		s.Apart = []spread.Member{m}
		if counts := len(s.Failures(record.Failed)) > 0; m.Stage != want || counts != (want == spread.Rolling) {
			t.Errorf("created %s after the first took the change, it is %s; a failure of it counts: %v", created, m.Stage, counts)
		}
	}
}
