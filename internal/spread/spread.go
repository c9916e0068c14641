package spread

import (
	"cmp"
	"slices"
	"time"
)

// Stage is how far one workload is with a change.
type Stage string

// The stages. Members with those up to Later do not have the change yet.
const (
	// Waiting: it has not got the change, and would take it at once.
	Waiting Stage = "Waiting"
	// Later: it would take it, but something of its own delays it: it is paused, frozen, outside of its window, or could not when it was its turn. Its wave
	// waits for it.
	Later Stage = "Later"
	// Apart: a person or a deploy decides when it gets the change, or it cannot take it. No one waits for it.
	Apart Stage = "Apart"
	// Rolling: it is rolling the change out.
	Rolling Stage = "Rolling"
	// Failed: it took the change, and did not get well.
	Failed Stage = "Failed"
	// Parked: it has rolled the change out as far as it can by itself, and needs a person.
	Parked Stage = "Parked"
	// Unwell: it is rolling the change out, and was not healthy before, so the change may be what repairs it. No one waits for it.
	Unwell Stage = "Unwell"
	// Idle: it runs no pod that could show whether the change is good: it has no replicas, or its next Job is still to come.
	Idle Stage = "Idle"
	// Baking: it has rolled the change out, and has to stay healthy for a while.
	Baking Stage = "Baking"
	// Vouched: it has stayed healthy with the change for long enough.
	Vouched Stage = "Vouched"
)

// Member is one of the workloads that a change moves.
type Member struct {
	// Name orders the members of a wave: "deployment/web".
	Name string
	// Wave is the number that the workload itself states; lower ones come first.
	Wave  int
	Stage Stage
	// First is true for a workload that gets its first pin, or got it last. It belongs to no wave.
	First bool
	// Disturbed is true for a member without the change that is in the middle of another rollout, and so takes up a place already.
	Disturbed bool
	// Unsure is true for a Disturbed member of which that is not known for sure, since its controller has not looked at it since it was written.
	Unsure bool
	// Free is true for a workload whose first pin takes up no place, since no pods of it are replaced.
	Free bool
	// Took is when it took the change, or did last, or was created with it in the place of another object; zero if it never did.
	Took time.Time
	// Fails is true for a member that counts as a failure: it has failed, or was rolled back since.
	Fails bool
	// RolledBack is true for a member that was brought back from the change.
	RolledBack bool
	// Lacks is true for a member that cannot take the change, since the source lacks what it requires.
	Lacks bool
	// ByStop is true if it is confrev that brought it back, because the change was stopped. It takes it again when the stop ends.
	ByStop bool
	// Until is when a Baking member vouches, if nothing happens.
	Until time.Time
	// Why says why it is at its stage, where that is not plain.
	Why string
}

// isWaitedFor reports whether the member's wave waits for it.
func (m Member) isWaitedFor() bool {
	return slices.Contains([]Stage{Waiting, Later, Rolling, Failed, Parked, Baking}, m.Stage)
}

// proves reports whether the member can ever show whether the change is good.
func (m Member) proves() bool { return m.Stage != Idle }

// InFlight reports whether the member has the change and takes up a place: until it vouches.
func (m Member) InFlight() bool {
	return slices.Contains([]Stage{Rolling, Failed, Unwell, Baking}, m.Stage)
}

// Spread is how far a change has come.
type Spread struct {
	// Waves has all members in their order, except for those that stand apart.
	Waves []Wave
	Apart []Member
	// First has the workloads that get their first pin, in their order, and those that have got it and no other since.
	First []Member
	// Left is how many waves have passed whose members have left. The numbers of the others count them.
	Left int
	// Open is how many of Waves have passed: members of the waves up to and including the one with this index may go.
	Open int
	// Budget is how many members may be in flight; 0 if there is no limit.
	Budget int
	// FirstBudget is how many of First may roll out at the same time; 0 if there is no limit.
	FirstBudget int
	// Stopped is true if no further member may go.
	Stopped bool
	// Behind is true if no member may go before the namespace that comes first has vouched for the change.
	Behind bool
	// passed is how many of Waves have passed, including the last.
	passed int
}

// Look returns how far a change has come among members in any order. passed is the place of the last member of the waves that have been recorded as
// passed, and open is how many waves have passed in any case.
func Look(members []Member, settings Settings, open int, passed Place) Spread {
	s := Spread{Open: open}
	var taking []Member
	for _, m := range members {
		switch {
		case m.First:
			s.First = append(s.First, m)
		case m.Stage == Apart:
			s.Apart = append(s.Apart, m)
		default:
			taking = append(taking, m)
		}
	}
	order := func(a, b Member) int { return cmp.Or(cmp.Compare(a.Wave, b.Wave), cmp.Compare(a.Name, b.Name)) }
	for _, all := range [][]Member{s.Apart, s.First, taking} {
		slices.SortFunc(all, order)
	}
	s.Budget, s.FirstBudget = settings.budget(len(taking)), settings.budget(len(taking)+len(s.First))
	s.Waves = waves(taking, settings.Steps)
	for s.Open < len(s.Waves) && s.endOf(s.Open+1).Compare(passed) <= 0 {
		s.Open++
	}
	s.passed = s.Open
	s.Open = min(s.Open, max(0, len(s.Waves)-1))
	return s
}

// Verdict is whether a member may go.
type Verdict string

// The verdicts.
const (
	// Goes: it may take the change now.
	Goes Verdict = "Goes"
	// Stopped: the change is stopped.
	Stopped Verdict = "Stopped"
	// EarlierStage: the namespace that comes first has not vouched for the change.
	EarlierStage Verdict = "EarlierStage"
	// LaterWave: its wave has not begun; Bakes, where only time has to pass until it does.
	LaterWave Verdict = "LaterWave"
	Bakes     Verdict = "Bakes"
	// NoPlace: as many members as may are in the middle of the change.
	NoPlace Verdict = "NoPlace"
)

// verdicts calls yield with the verdict on each member that waits, in their order.
//
// Who may go depends on a fixed order. A member goes if fewer than the budget are in flight, with those before it that go. So fewer than the
// budget stand before it that have not finished, which makes a view that is out of date harmless: every member that it lets go, a later view has let go already.
// A member that is disturbed takes up a place anyway, so it goes; otherwise those that are stuck on a bad change would keep its repair out.
func (s Spread) verdicts(yield func(Member, Verdict) bool) {
	if !s.firstVerdicts(yield) {
		return
	}
	inFlight := s.countFirst(Rolling)
	for i, wave := range s.Waves {
		for _, m := range wave.Members {
			// A person may have let members of later waves go, or waves before theirs have left. Those that wait there for their wave keep no one out.
			if m.InFlight() || m.Stage == Waiting && m.Disturbed && i <= s.Open {
				inFlight++
			}
		}
	}
	for i, wave := range s.Waves {
		for _, m := range wave.Members {
			if m.Stage != Waiting {
				continue
			}
			verdict := s.verdict(i, m, inFlight)
			if verdict == Goes && !m.Disturbed {
				inFlight++
			}
			if !yield(m, verdict) {
				return
			}
		}
	}
}

// verdict returns the verdict on a member that waits in a wave, when so many others are in flight.
func (s Spread) verdict(wave int, m Member, inFlight int) Verdict {
	switch {
	case s.Stopped:
		return Stopped
	case s.Behind:
		return EarlierStage
	case wave > s.Open && s.Waves[s.Open].bakes():
		return Bakes
	case wave > s.Open:
		return LaterWave
	case s.Budget == 0 || m.Disturbed && !m.Unsure || inFlight < s.Budget:
		return Goes
	}
	return NoPlace
}

// Of returns the verdict on a member that waits. It is false for anything that is no such member.
func (s Spread) Of(name string) (verdict Verdict, ok bool) {
	for m, v := range s.verdicts {
		if m.Name == name {
			return v, true
		}
	}
	return "", false
}

// Next returns the members that may go now.
func (s Spread) Next() []Member {
	var going []Member
	for m, v := range s.verdicts {
		if v == Goes {
			going = append(going, m)
		}
	}
	return going
}

// Waits returns the members that wait for their turn.
func (s Spread) Waits() []Member {
	var all []Member
	for m := range s.verdicts {
		all = append(all, m)
	}
	return all
}

// Verdicts returns the verdict on each member that waits.
func (s Spread) Verdicts() map[string]Verdict {
	all := map[string]Verdict{}
	for m, v := range s.verdicts {
		all[m.Name] = v
	}
	return all
}

// Count returns how many members, other than those apart, are at one of some stages.
func (s Spread) Count(stages ...Stage) int {
	n := 0
	for _, wave := range s.Waves {
		for _, m := range wave.Members {
			if slices.Contains(stages, m.Stage) {
				n++
			}
		}
	}
	return n
}

// Members returns how many members there are, other than those apart.
func (s Spread) Members() int {
	n := 0
	for _, wave := range s.Waves {
		n += len(wave.Members)
	}
	return n
}

// Failures returns the members that count as failures and are not among those that have counted before, sorted.
func (s Spread) Failures(counted []Failure) []Failure {
	var all []Failure
	for _, wave := range append(slices.Clone(s.Waves), Wave{s.Apart}) {
		for _, m := range wave.Members {
			f := Failure{m.Name, m.Took.Unix()}
			if m.Fails && !slices.Contains(counted, f) && !slices.Contains(counted, Failure{Member: m.Name}) {
				all = append(all, f)
			}
		}
	}
	slices.SortFunc(all, Failure.compare)
	return all
}

// Stops reports whether so many failures stop a change.
func (s Settings) Stops(failures int) bool {
	return s.OnFailure >= StopIt && failures >= max(1, s.StopAfter)
}

// Has returns the members that have the change.
func (s Spread) Has() []Member {
	var all []Member
	for _, wave := range s.Waves {
		for _, m := range wave.Members {
			if !slices.Contains([]Stage{Waiting, Later}, m.Stage) {
				all = append(all, m)
			}
		}
	}
	return all
}

// Done reports whether every member has vouched, or never will, and no first pin is to come or rolls out.
func (s Spread) Done() bool {
	return s.Members() == s.Count(Vouched, Idle, Unwell) && s.countFirst(Waiting, Later, Rolling) == 0
}

// Vouches reports whether every member has vouched that can, and one has: other namespaces may have the change then. One that was brought back
// from it, or cannot take it, speaks against it.
func (s Spread) Vouches() bool {
	return !s.Stopped && s.Members() == s.Count(Vouched, Idle) && s.Count(Vouched) > 0 &&
		!slices.ContainsFunc(s.Apart, func(m Member) bool { return m.RolledBack || m.Lacks })
}

// AtLeast returns how long the change takes that is still to come, if each member gets well at once: members bake one after another, as the budget
// has it, and waves begin one after another.
func (s Spread) AtLeast(bake time.Duration) time.Duration {
	rounds := 0
	for _, wave := range s.Waves {
		waiting := 0
		for _, m := range wave.Members {
			if m.Stage == Waiting || m.Stage == Later {
				waiting++
			}
		}
		atOnce := s.Budget
		if atOnce == 0 {
			atOnce = waiting
		}
		if waiting > 0 {
			rounds += (waiting + atOnce - 1) / atOnce
		}
	}
	return time.Duration(rounds) * bake
}

// Wakes returns when the first member vouches that bakes; zero if none does.
func (s Spread) Wakes() time.Time {
	var first time.Time
	for _, wave := range s.Waves {
		for _, m := range wave.Members {
			if m.Stage == Baking && !m.Until.IsZero() && (first.IsZero() || m.Until.Before(first)) {
				first = m.Until
			}
		}
	}
	return first
}
