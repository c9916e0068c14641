package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/waiting"
	"confrev.io/confrev/internal/workload"
)

// admittedFor is how long a member that was let go counts as being in the middle of the change although nothing shows it yet.
const admittedFor = 30 * time.Second

// begin forgets what is remembered of earlier content, and what does not count any more.
func (c *change) begin(s *Survey) {
	same := c.revision == s.Current.Revision && c.number == s.since() && c.healthy != nil
	if same && !c.void {
		return
	}
	if !same {
		// A member that was let go a moment ago takes up a place whether or not it leads.
		c.admitted, c.yielded = map[string]time.Time{}, map[string]time.Time{}
	}
	c.revision, c.number = s.Current.Revision, s.since()
	c.healthy, c.vouched, c.watched, c.stuck = map[string]time.Time{}, map[string]bool{}, map[string]bool{}, map[string]stuck{}
	c.crashed, c.examined, c.analysed = map[string]string{}, map[string]time.Time{}, map[string]analysed{}
	c.objects, c.fresh = map[string]types.UID{}, true
}

// recognize forgets what is remembered of a member whose name another object has now. Who was let go stays: the new object may have asked.
func (c *change) recognize(name string, uid types.UID) {
	if c.objects[name] == uid {
		return
	}
	c.objects[name] = uid
	c.forget(name)
	delete(c.watched, name)
	delete(c.analysed, name)
}

// forget forgets how a member has taken the change.
func (c *change) forget(name string) {
	delete(c.healthy, name)
	delete(c.vouched, name)
	delete(c.stuck, name)
	delete(c.crashed, name)
}

// member returns a workload as a member of the change.
func (c *change) member(s *Survey, name string, of rollout.Standing, now time.Time) spread.Member {
	c.recognize(name, s.Workloads[name].UID)
	m := spread.Member{Name: name, Wave: of.Wave, Took: of.Advance.At}
	if of.First {
		c.stageOfFirst(&m, of, now)
		return m
	}
	if of.Has {
		delete(c.admitted, name)
		if created := s.Workloads[name].Created; !m.Took.IsZero() && created.After(m.Took) {
			// Its note is that of an object that it replaced. What was recorded of that says nothing about this one.
			m.Took = created
		}
		runsJobs := s.Workloads[name].Engine.Kind.RunsJobs()
		if c.fresh && !runsJobs && !of.Advance.Unwell && !isIdle(of.Health) && s.Record.HasVouched(m) {
			c.vouched[name] = true
		}
		c.stageOf(&m, of, runsJobs, s.Settings.Bake, now)
		return m
	}
	d := of.Decision
	if d.Verdict == plan.Unknown && s.Current.Revision != "" && of.Advance.To[s.Source.Source()].Revision == s.Current.Revision {
		// By its own note it has the change.
		if m.Stage, m.Why = spread.Rolling, couldNotLook; c.vouched[name] {
			m.Stage = spread.Vouched
		}
		return m
	}
	c.forget(name)
	c.watched[name] = true
	switch {
	case now.Sub(c.admitted[name]) < admittedFor:
		// Whatever it looks like. If the cache shows its new ReplicaSet before its new template, it looks rolled back.
		m.Stage = spread.Rolling
	case d.Verdict == plan.Advanced && of.Paused:
		m.Stage, m.Why = spread.Later, paused
	case d.Verdict == plan.Advanced, d.Verdict == plan.Waiting && d.Wait.Reason == waiting.Stopped:
		m.Stage = spread.Waiting
		for _, health := range of.Health {
			m.Disturbed = m.Disturbed || health.Disturbed && !health.Idle
			m.Unsure = m.Unsure || health.Unseen
		}
		c.yields(&m, now)
	case d.Verdict == plan.Unknown:
		m.Stage, m.Why = spread.Later, couldNotLook
	case d.Verdict == plan.Waiting && (d.Wait.Invalid || !d.Wait.Until.IsZero()):
		m.Stage, m.Why = spread.Later, "waits "+d.Wait.String()
	case d.Verdict == plan.Waiting:
		m.Stage, m.Why = spread.Apart, "waits "+d.Wait.String()
	default:
		m.Stage, m.Why, m.RolledBack = spread.Apart, cmp.Or(apart[d.Verdict], string(d.Verdict)), d.Verdict == plan.Held
		m.ByStop = of.Stop > 0
		m.Lacks = d.Verdict == plan.KeyMissing || d.Verdict == plan.SourceMissing
		// Someone rolled back the change alone. Where the code went back too, it may have been the cause.
		m.Fails = d.Verdict == plan.Held && of.Code && !of.Advance.Unwell && of.Advance.To[s.Source.Source()].Revision == s.Current.Revision
		// What follows from a stop that was recorded is no reason for another.
		m.Fails = m.Fails && (of.Stop == 0 || of.Stop > s.Record.Stops)
	}
	return m
}

// isIdle reports whether a workload runs no pods.
func isIdle(all []workload.Health) bool {
	return !slices.ContainsFunc(all, func(health workload.Health) bool { return !health.Idle })
}

// stageOfFirst finds out how far a workload is with its first pin. It takes up a place only while it rolls out and makes progress: nothing depends on
// whether it gets well.
func (c *change) stageOfFirst(m *spread.Member, of rollout.Standing, now time.Time) {
	m.First = true
	if of.Decision.Verdict == plan.Waiting {
		m.Stage, m.Why = spread.Later, "waits "+of.Decision.Wait.String()
		return
	}
	if !of.Has {
		m.Stage = spread.Waiting
		if now.Sub(c.admitted[m.Name]) < admittedFor {
			m.Stage = spread.Rolling
		}
		c.yields(m, now)
		m.Free = of.Paused || isIdle(of.Health)
		return
	}
	delete(c.admitted, m.Name)
	m.Stage = spread.Vouched
	for _, health := range of.Health {
		// A pod that is lost later takes up no place.
		if !health.Disturbed || health.Idle {
			continue
		}
		switch m.Why = health.Left; {
		case health.NeedsAction:
			m.Stage = spread.Parked
		case of.Advance.Unwell:
			m.Stage = spread.Unwell
		case c.failed(m.Name, of, health.Left, now):
			m.Stage = spread.Failed
		case of.Paused:
			m.Stage, m.Why = spread.Parked, paused
		default:
			m.Stage = spread.Rolling
		}
	}
}

const (
	couldNotLook = "it could not be looked at"
	paused       = "it is paused (spec.paused)"
)

// apart has why workloads with some verdicts do not take the change.
var apart = map[plan.Verdict]string{
	plan.Held: "it was rolled back, and stays", plan.KeyMissing: "it requires a key that the source lacks", plan.SourceMissing: "the source does not exist",
}

// stageOf finds out how far a member is that has the change. Once it has vouched, it does so until it gets other content: a pod that is
// replaced later does not stop anyone.
func (c *change) stageOf(m *spread.Member, of rollout.Standing, runsJobs bool, bake time.Duration, now time.Time) {
	healthy, idle, since, why := true, true, of.Advance.At, ""
	needsAction, recorded := false, true
	for _, health := range of.Health {
		idle = idle && health.Idle
		healthy = healthy && (health.RolledOut || health.Idle)
		if !health.RolledOut && health.Left != "" {
			why, needsAction = health.Left, needsAction || health.NeedsAction
		}
		recorded = recorded && !health.Since.IsZero()
		if health.Since.After(since) {
			since = health.Since
		}
	}
	switch {
	case c.vouched[m.Name], runsJobs && of.Proven:
		m.Stage = spread.Vouched
	case runsJobs && of.Disproven && !of.Advance.Unwell:
		m.Stage, m.Fails, m.Why = spread.Failed, true, "its first Job with the change failed"
	case c.crashed[m.Name] != "" && !of.Advance.Unwell:
		m.Stage, m.Fails, m.Why = spread.Failed, true, c.crashed[m.Name]
	case runsJobs:
		m.Stage, m.Why = spread.Idle, "its next Job is to come"
	case idle:
		m.Stage, m.Why = spread.Idle, "it has no replicas"
	case healthy && c.byAnalysis(m, of):
	case healthy:
		if c.bakes(m, of, since, recorded, bake, now) {
			return
		}
		m.Stage, m.Until, c.vouched[m.Name] = spread.Vouched, time.Time{}, true
	case needsAction:
		m.Stage, m.Why = spread.Parked, why
		delete(c.stuck, m.Name)
	case of.Advance.Unwell:
		m.Stage, m.Why = spread.Unwell, why
	case c.failed(m.Name, of, why, now):
		m.Stage, m.Fails, m.Why = spread.Failed, true, why
	case of.Paused:
		m.Stage, m.Why = spread.Parked, paused
	default:
		m.Stage, m.Why = spread.Rolling, why
	}
	if !healthy {
		c.watched[m.Name] = true
		delete(c.healthy, m.Name)
	} else {
		delete(c.stuck, m.Name)
	}
}

// bakes reports whether a member that is healthy with the change has been so for too short a time, or its analyses run. since is when it became healthy, if
// that is recorded, and otherwise the earliest that it may be.
func (c *change) bakes(m *spread.Member, of rollout.Standing, since time.Time, recorded bool, bake time.Duration, now time.Time) bool {
	// A process that looks once cannot know since when, and says what it can be at the earliest.
	seen := since
	if !c.brief {
		seen = c.healthySince(m.Name, now)
	}
	left := seen.Add(bake).Sub(now)
	if recorded {
		if bake > 0 {
			// In whole seconds, rounded down.
			since = since.Add(time.Second)
		}
		// Nothing records that it was not healthy in between, and the clocks may jump. What this process has seen itself counts besides.
		if by := since.Add(bake).Sub(now); !c.watched[m.Name] || by > left {
			left = by
		}
	}
	runs := c.runningAnalyses(m.Name, of)
	if left <= 0 && len(runs) == 0 {
		return false
	}
	if m.Stage, m.Until = spread.Baking, now.Add(left); len(runs) > 0 {
		// It ends when they do.
		m.Until, m.Why = time.Time{}, "its analysis runs: "+strings.Join(runs, ", ")
	}
	return true
}

// deadline is how long a workload may take a change without progress, unless it says otherwise. Deployments have a deadline of their own.
const deadline = 10 * time.Minute

// stuck is since when a member is left with the same.
type stuck struct {
	left  string
	since time.Time
}

// failed reports whether a member that rolls the change out has failed: its controller gave up since it took the change, or it makes no
// progress.
func (c *change) failed(name string, of rollout.Standing, left string, now time.Time) bool {
	own := of.Deadline
	for _, health := range of.Health {
		own = cmp.Or(own, health.Deadline)
		// The condition of an earlier failure stays until the controller has seen the change.
		if health.Failed && (health.FailedAt.IsZero() || !health.FailedAt.Before(of.Advance.At)) {
			return true
		}
	}
	if of.Paused || slices.ContainsFunc(of.Health, func(health workload.Health) bool { return health.Unseen }) {
		// What a controller has not looked at, or a person does not let continue, shows nothing about the change.
		delete(c.stuck, name)
		return false
	}
	if known := c.stuck[name]; known.left != left || known.since.IsZero() {
		c.stuck[name] = stuck{left, now}
	}
	return !c.brief && now.Sub(c.stuck[name].since) >= cmp.Or(own, deadline)
}

func (c *change) healthySince(name string, now time.Time) time.Time {
	since, known := c.healthy[name]
	if !known {
		since = now
		c.healthy[name] = now
	}
	return since
}
