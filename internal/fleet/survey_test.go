package fleet

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/waiting"
	"confrev.io/confrev/internal/workload"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// surveyed returns a survey in which Deployment web and CronJob job are members.
func surveyed(bake time.Duration) *Survey {
	s := &Survey{Current: pin.Pin{Revision: "app-b", Number: 2}, Workloads: map[string]Workload{
		"web": {Engine: &rollout.Engine{Kind: workload.Deployment}}, "job": {Engine: &rollout.Engine{Kind: workload.CronJob}},
	}}
	s.Settings, s.Source = spread.Settings{Bake: bake}, revision.Ref{Kind: pin.ConfigMap, Namespace: "x", Name: "app"}
	return s
}

func has(health ...workload.Health) rollout.Standing {
	return rollout.Standing{Has: true, Advance: spread.Advance{At: noon}, Health: health}
}

var (
	recorded = workload.Health{RolledOut: true, Since: noon.Add(10 * time.Second)}
	healthy  = workload.Health{RolledOut: true, Works: true}
	rolling  = workload.Health{Disturbed: true, Progress: workload.Progress{Left: "0 of 1 pods are new"}}
	parked   = workload.Health{Disturbed: true, Progress: workload.Progress{Left: "stays", NeedsAction: true}}
	idle     = workload.Health{Idle: true, RolledOut: true, Works: true}
)

// failing returns the health of a member whose controller gave up at a time.
func failing(at time.Time) workload.Health {
	return workload.Health{Disturbed: true, FailedAt: at, Progress: workload.Progress{Left: "0 of 1 pods are new", Failed: true}}
}

// rolledBack returns how a member stands that took a revision and was brought back, with or without its code.
func rolledBack(code bool, from string) rollout.Standing {
	return rollout.Standing{Decision: plan.Decision{Verdict: plan.Held}, Code: code, Advance: spread.Advance{To: pin.Set{shared: {Revision: from, Number: 2}}}}
}

var shared = pin.Source{Kind: pin.ConfigMap, Name: "app"}

// Rule 40: a member that makes no progress for its deadline has failed, and one that does has not.
func TestWithoutProgress(t *testing.T) {
	c, s := &change{}, surveyed(0)
	c.begin(s)
	var kinds time.Duration
	look := func(left string, own time.Duration, after time.Duration) spread.Stage {
		of := has(workload.Health{Disturbed: true, Progress: workload.Progress{Left: left}, Deadline: kinds})
		of.Deadline = own
		return c.member(s, "web", of, noon.Add(after)).Stage
	}
	for i, step := range []struct {
		left  string
		own   time.Duration
		after time.Duration
		want  spread.Stage
	}{
		{"0 of 2", 0, 0, spread.Rolling}, {"0 of 2", 0, 9 * time.Minute, spread.Rolling}, {"1 of 2", 0, 10 * time.Minute, spread.Rolling},
		{"1 of 2", 0, 19 * time.Minute, spread.Rolling}, {"1 of 2", 0, 20 * time.Minute, spread.Failed}, {"2 of 2", 0, 20 * time.Minute, spread.Rolling},
		{"2 of 2", time.Minute, 21 * time.Minute, spread.Failed},
	} {
		if got := look(step.left, step.own, step.after); got != step.want {
			t.Errorf("%d: %s, want %s", i, got, step.want)
		}
	}
	kinds = 5 * time.Second
	if got := []spread.Stage{look("3 of 4", 0, time.Hour), look("3 of 4", time.Minute, time.Hour+6*time.Second), look("3 of 4", 0, time.Hour+6*time.Second)}; !slices.Equal(got, []spread.Stage{spread.Rolling, spread.Rolling, spread.Failed}) {
		t.Errorf("with a deadline of its kind: %v", got)
	}
}

// Rule 37: a person may pause a Deployment in the middle of the change for as long as they like. Afterwards, it has its whole deadline.
func TestAPauseIsNoFailure(t *testing.T) {
	c, s := &change{}, surveyed(0)
	c.begin(s)
	for i, step := range []struct {
		paused bool
		after  time.Duration
		want   spread.Stage
	}{
		{false, 0, spread.Rolling}, {true, time.Minute, spread.Parked}, {true, time.Hour, spread.Parked}, {false, time.Hour, spread.Rolling},
		{false, time.Hour + 9*time.Minute, spread.Rolling}, {false, time.Hour + 10*time.Minute, spread.Failed},
	} {
		of := has(rolling)
		of.Paused = step.paused
		if m := c.member(s, "web", of, noon.Add(step.after)); m.Stage != step.want || m.Fails != (step.want == spread.Failed) {
			t.Errorf("%d: it is %s, fails: %v; want %s", i, m.Stage, m.Fails, step.want)
		}
	}
}

// Rule 38: how far a workload is with its first pin, and that it takes up a place only while it makes progress.
func TestStagesOfFirstPins(t *testing.T) {
	wants := func(health workload.Health) rollout.Standing {
		return rollout.Standing{First: true, Decision: plan.Decision{Verdict: plan.Pinned}, Health: []workload.Health{health}}
	}
	got := func(health workload.Health) rollout.Standing {
		of := has(health)
		of.First = true
		return of
	}
	unwell := got(rolling)
	unwell.Advance.Unwell = true
	unread := wants(healthy)
	unread.Decision.Verdict = plan.Waiting
	paused, stays := wants(healthy), got(rolling)
	paused.Paused, stays.Paused = true, true
	for name, test := range map[string]struct {
		of       rollout.Standing
		admitted bool
		want     spread.Stage
		free     bool
	}{
		"it waits":                      {of: wants(healthy), want: spread.Waiting},
		"it was let go":                 {of: wants(healthy), admitted: true, want: spread.Rolling},
		"it is in another rollout":      {of: wants(rolling), want: spread.Waiting},
		"it runs no pods":               {of: wants(workload.Health{Idle: true}), want: spread.Waiting, free: true},
		"it is paused":                  {of: paused, want: spread.Waiting, free: true},
		"a setting cannot be read":      {of: unread, want: spread.Later},
		"it rolls out":                  {of: got(rolling), want: spread.Rolling},
		"it was paused in the middle":   {of: stays, want: spread.Parked},
		"it is rolled out":              {of: got(healthy), want: spread.Vouched},
		"it was not well before":        {of: unwell, want: spread.Unwell},
		"its controller gave up":        {of: got(failing(noon)), want: spread.Failed},
		"it needs a person":             {of: got(workload.Health{Disturbed: true, Progress: workload.Progress{Left: "x", NeedsAction: true}}), want: spread.Parked},
		"it has the pin, and no pods":   {of: got(workload.Health{Idle: true}), want: spread.Vouched},
		"it lost its pods since":        {of: got(workload.Health{Progress: workload.Progress{Left: "0 of 1 pods are available"}}), want: spread.Vouched},
		"it was let go, and has it now": {of: got(healthy), admitted: true, want: spread.Vouched},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := &change{}, surveyed(0)
			if c.begin(s); test.admitted {
				c.admitted["web"] = noon
			}
			m := c.member(s, "web", test.of, noon.Add(time.Second))
			if m.Stage != test.want || m.Free != test.free || !m.First || m.Fails {
				t.Errorf("%+v", m)
			}
		})
	}
}

// Rule 40: what is known of pods and progress is forgotten when a member goes back. It may take the same change again.
func TestGoingBackBeginsAnew(t *testing.T) {
	c, s := &change{}, surveyed(0)
	c.begin(s)
	rolling := has(workload.Health{Disturbed: true, Progress: workload.Progress{Left: "0 of 2"}})
	c.crashed["web"] = "its container app crashed 2 times"
	if got := c.member(s, "web", rolling, noon); got.Stage != spread.Failed || !got.Took.Equal(rolling.Advance.At) {
		t.Fatalf("%+v", got)
	}
	c.member(s, "web", rollout.Standing{Decision: plan.Decision{Verdict: plan.Held}}, noon)
	if got := c.member(s, "web", rolling, noon.Add(time.Hour)); got.Stage != spread.Rolling {
		t.Errorf("%+v", got)
	}
}

// Rule 37, the table of members: which stage each has.
func TestStages(t *testing.T) {
	unwell := has(rolling)
	unwell.Advance.Unwell = true
	unwellAndFailing := has(failing(noon))
	unwellAndFailing.Advance.Unwell = true
	well := has(recorded)
	well.Advance.Unwell = true
	proven := has(healthy)
	proven.Proven = true
	late := has(recorded)
	late.Advance.At = noon.Add(50 * time.Second)
	waits := func(reason waiting.Reason, until time.Time) rollout.Standing {
		return rollout.Standing{Decision: plan.Decision{Verdict: plan.Waiting, Wait: waiting.Wait{Reason: reason, Until: until}}, Health: []workload.Health{healthy}}
	}
	moves := func(health workload.Health) rollout.Standing {
		return rollout.Standing{Decision: plan.Decision{Verdict: plan.Advanced}, Health: []workload.Health{health}}
	}
	paused := moves(healthy)
	paused.Paused = true
	with := func(health workload.Health) rollout.Standing {
		of := has(health)
		of.Paused = true
		return of
	}
	pausedUnwell := with(rolling)
	pausedUnwell.Advance.Unwell = true
	for name, test := range map[string]struct {
		of        rollout.Standing
		member    string
		want      spread.Stage
		disturbed bool
		fails     bool
		until     time.Time
	}{
		"it rolls out":                         {of: has(rolling), want: spread.Rolling},
		"it bakes":                             {of: has(recorded), want: spread.Baking, until: noon.Add(71 * time.Second)},
		"it bakes from its advance on":         {of: late, want: spread.Baking, until: noon.Add(111 * time.Second)},
		"no one recorded since when":           {of: has(healthy), want: spread.Baking, until: noon.Add(120 * time.Second)},
		"it needs a person":                    {of: has(parked), want: spread.Parked},
		"its controller gave up":               {of: has(failing(noon)), want: spread.Failed, fails: true},
		"it gave up on the content before":     {of: has(failing(noon.Add(-time.Second))), want: spread.Rolling},
		"it gave up, no one recorded when":     {of: has(failing(time.Time{})), want: spread.Failed, fails: true},
		"it gave up, and was not well before":  {of: unwellAndFailing, want: spread.Unwell},
		"it was not well before":               {of: unwell, want: spread.Unwell},
		"it was not well before, and is now":   {of: well, want: spread.Baking, until: noon.Add(71 * time.Second)},
		"it has no replicas":                   {of: has(idle), want: spread.Idle},
		"two roll it out, and one is not done": {of: has(recorded, rolling), want: spread.Rolling},
		"two roll it out, and one is idle":     {of: has(recorded, idle), want: spread.Baking, until: noon.Add(120 * time.Second)},
		"its Job is to come":                   {of: has(healthy), member: "job", want: spread.Idle},
		"its Job has succeeded":                {of: proven, member: "job", want: spread.Vouched},
		"it would take it":                     {of: moves(healthy), want: spread.Waiting},
		"it would, in the middle of another":   {of: moves(rolling), want: spread.Waiting, disturbed: true},
		"it would, with no replicas":           {of: moves(workload.Health{Idle: true, Disturbed: true}), want: spread.Waiting},
		"it is paused":                         {of: paused, want: spread.Later},
		"it was paused in the middle":          {of: with(rolling), want: spread.Parked},
		"it was paused after it was done":      {of: with(recorded), want: spread.Baking, until: noon.Add(71 * time.Second)},
		"it was paused after it failed":        {of: with(failing(noon)), want: spread.Failed, fails: true},
		"it was paused, and not well before":   {of: pausedUnwell, want: spread.Unwell},
		"it is frozen":                         {of: waits(waiting.Frozen, noon.Add(time.Hour)), want: spread.Later},
		"a setting cannot be read":             {of: rollout.Standing{Decision: plan.Decision{Verdict: plan.Waiting, Wait: waiting.Wait{Reason: waiting.Manual, Invalid: true}}}, want: spread.Later},
		"it waits for a person":                {of: waits(waiting.Manual, time.Time{}), want: spread.Apart},
		"it waits for a deploy":                {of: waits(waiting.OnDeploy, time.Time{}), want: spread.Apart},
		"the change is stopped":                {of: waits(waiting.Stopped, time.Time{}), want: spread.Waiting},
		"it is held":                           {of: rollout.Standing{Decision: plan.Decision{Verdict: plan.Held}}, want: spread.Apart},
		"someone rolled it back":               {of: rolledBack(true, "app-b"), want: spread.Apart, fails: true},
		"with its code":                        {of: rolledBack(false, "app-b"), want: spread.Apart},
		"from other content":                   {of: rolledBack(true, "app-a"), want: spread.Apart},
		"it could not be looked at":            {of: rollout.Standing{Decision: plan.Decision{Verdict: plan.Unknown}}, want: spread.Later},
		"it lacks a key":                       {of: rollout.Standing{Decision: plan.Decision{Verdict: plan.KeyMissing}}, want: spread.Apart},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := &change{}, surveyed(time.Minute)
			c.begin(s)
			member := test.member
			if member == "" {
				member = "web"
			}
			got := c.member(s, member, test.of, noon.Add(time.Minute))
			if got.Stage != test.want || got.Disturbed != test.disturbed || got.Fails != test.fails || !got.Until.Equal(test.until) {
				t.Errorf("%s, disturbed %v, until %s (%s)", got.Stage, got.Disturbed, got.Until, got.Why)
			}
			if got.Why == "" && (test.want == spread.Later || test.want == spread.Apart || test.want == spread.Parked || test.want == spread.Idle) {
				t.Error("it does not say why")
			}
		})
	}
}

// Rule 37: a workload has to stay healthy, also where its controller notes when the rollout was complete, and not what happened since.
func TestTroubleWhileBaking(t *testing.T) {
	c, s := &change{}, surveyed(time.Minute)
	c.begin(s)
	for i, step := range []struct {
		health workload.Health
		after  time.Duration
		want   spread.Stage
		until  time.Duration
	}{
		{rolling, 0, spread.Rolling, 0}, {recorded, 11 * time.Second, spread.Baking, 71 * time.Second}, {rolling, 50 * time.Second, spread.Rolling, 0},
		{recorded, 75 * time.Second, spread.Baking, 135 * time.Second}, {recorded, 134 * time.Second, spread.Baking, 135 * time.Second},
		{recorded, 135 * time.Second, spread.Vouched, 0},
	} {
		m := c.member(s, "web", has(step.health), noon.Add(step.after))
		if m.Stage != step.want || step.until > 0 && !m.Until.Equal(noon.Add(step.until)) {
			t.Errorf("%d: %s until %s, want %s until %s", i, m.Stage, m.Until.Sub(noon), step.want, step.until)
		}
	}
}

// Rule 37: where this process has seen a member become healthy, it counts the time itself: clocks may jump, and differ.
func TestClocksJumpWhileBaking(t *testing.T) {
	without := rollout.Standing{Decision: plan.Decision{Verdict: plan.Advanced}, Health: []workload.Health{healthy}}
	for name, before := range map[string]*rollout.Standing{"it was seen without the change": &without, "it was seen to roll it out": new(has(rolling)), "it was not seen before": nil} {
		c, s := &change{}, surveyed(time.Minute)
		if c.begin(s); before != nil {
			c.member(s, "web", *before, noon)
		}
		const jump = time.Hour
		first, later, until := spread.Baking, spread.Vouched, jump+time.Minute
		if before == nil {
			// It may have become healthy long ago.
			first, until = spread.Vouched, 0
		}
		m := c.member(s, "web", has(recorded), noon.Add(jump))
		if m.Stage != first || until > 0 && !m.Until.Equal(noon.Add(until)) {
			t.Errorf("%s: at first it is %s until %s", name, m.Stage, m.Until)
		}
		if m := c.member(s, "web", has(recorded), noon.Add(jump+time.Minute)); m.Stage != later {
			t.Errorf("%s: later it is %s until %s", name, m.Stage, m.Until)
		}
		// A clock that is behind makes it longer.
		behind := &change{}
		behind.begin(s)
		behind.member(s, "web", without, noon.Add(-jump))
		if m := behind.member(s, "web", has(recorded), noon.Add(-jump)); m.Stage != spread.Baking || !m.Until.Equal(noon.Add(71*time.Second)) {
			t.Errorf("%s: with a clock that is behind, it is %s until %s", name, m.Stage, m.Until)
		}
	}
}

// Rule 37: what has vouched stays so; what has not begins again when it is unhealthy; other content begins again.
func TestBaking(t *testing.T) {
	c, s := &change{}, surveyed(time.Minute)
	look := func(of rollout.Standing, after time.Duration) spread.Stage {
		c.begin(s)
		return c.member(s, "web", of, noon.Add(after)).Stage
	}
	for i, step := range []struct {
		of    rollout.Standing
		after time.Duration
		want  spread.Stage
	}{
		{has(healthy), 0, spread.Baking}, {has(healthy), 59 * time.Second, spread.Baking}, {has(rolling), 59 * time.Second, spread.Rolling},
		{has(healthy), time.Minute, spread.Baking}, {has(healthy), 119 * time.Second, spread.Baking}, {has(healthy), 2 * time.Minute, spread.Vouched},
		{has(rolling), 3 * time.Minute, spread.Vouched}, {rollout.Standing{Decision: plan.Decision{Verdict: plan.Advanced}}, 4 * time.Minute, spread.Waiting},
		{has(healthy), 5 * time.Minute, spread.Baking},
	} {
		if got := look(step.of, step.after); got != step.want {
			t.Errorf("%d: %s, want %s", i, got, step.want)
		}
	}
	look(has(healthy), 10*time.Minute)
	s.Current.Number++
	if got := look(has(healthy), 10*time.Minute); got != spread.Baking {
		t.Errorf("with other content it is %s", got)
	}
	// One look cannot tell for how long.
	brief := &change{brief: true}
	brief.begin(s)
	if got := brief.member(s, "web", has(healthy), noon); got.Stage != spread.Baking || !got.Until.Equal(noon.Add(time.Minute)) {
		t.Errorf("at one look it is %+v", got)
	}
	s.Settings.Bake = 0
	if got := brief.member(s, "web", has(healthy), noon); got.Stage != spread.Vouched {
		t.Errorf("with nothing to bake it is %+v", got)
	}
}

// Rule 38: a member that was let go is in the middle of the change before anything shows it, but not forever.
func TestWhoWasLetGo(t *testing.T) {
	c, s := &change{}, surveyed(0)
	moves := rollout.Standing{Decision: plan.Decision{Verdict: plan.Advanced}}
	c.begin(s)
	c.admitted["web"] = noon
	if got := c.member(s, "web", moves, noon.Add(admittedFor-1)); got.Stage != spread.Rolling {
		t.Errorf("it is %s", got.Stage)
	}
	if got := c.member(s, "web", moves, noon.Add(admittedFor)); got.Stage != spread.Waiting {
		t.Errorf("later it is %s", got.Stage)
	}
	c.member(s, "web", has(recorded), noon)
	if len(c.admitted) > 0 {
		t.Errorf("remembered are %v", c.admitted)
	}
}

// Rule 37: a record counts for the object that it is on and its number only.
func TestWhichRecordsCount(t *testing.T) {
	for text, want := range map[string]int{
		`{"revision":"mine","number":2,"wave":3}`:   3,
		`{"revision":"other","number":2,"wave":3}`:  0,
		`{"revision":"mine","number":1,"wave":3}`:   0,
		`{"revision":"mine","number":2,"wave":-3}`:  0,
		`{"revision":"mine","number":"2","wave":3}`: 0,
		``: 0,
	} {
		meta := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: "mine", Annotations: map[string]string{keys.Propagation: text}}}
		if got, ok := record(meta, pin.Pin{Revision: "app-b", Number: 2}); got.Wave != want || ok != (want > 0) {
			t.Errorf("%s: %+v %v", text, got, ok)
		}
	}
}
