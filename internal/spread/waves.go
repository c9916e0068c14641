package spread

import "slices"

// Wave is a part of the members. The next begins when it has passed.
type Wave struct{ Members []Member }

// Passed reports whether no one is waited for, and someone has shown that the change is good.
func (w Wave) Passed() bool {
	return !slices.ContainsFunc(w.Members, Member.isWaitedFor) && slices.ContainsFunc(w.Members, func(m Member) bool { return m.Stage == Vouched })
}

// Unproven reports whether no one is waited for, but no one has shown that the change is good either.
func (w Wave) Unproven() bool {
	return !slices.ContainsFunc(w.Members, Member.isWaitedFor) && !w.Passed()
}

// bakes reports whether all that the wave still waits for is that time passes.
func (w Wave) bakes() bool {
	return !slices.ContainsFunc(w.Members, func(m Member) bool { return m.isWaitedFor() && m.Stage != Baking })
}

// waves divides members, in their order: where the number changes that workloads state, and after each step. Members that cannot show
// whether the change is good do not count for a step, so that each step has someone who can.
func waves(members []Member, steps []Amount) []Wave {
	proving := 0
	for _, m := range members {
		if m.proves() {
			proving++
		}
	}
	ends := map[int]bool{}
	for _, step := range steps {
		ends[step.Of(proving)] = true
	}
	var all []Wave
	begins, seen := true, 0
	for i, m := range members {
		if begins || m.Wave != members[i-1].Wave {
			all = append(all, Wave{})
		}
		last := &all[len(all)-1]
		last.Members = append(last.Members, m)
		begins = false
		if m.proves() {
			seen++
			begins = ends[seen] && seen < proving
		}
	}
	return all
}

// Continue counts waves on from those of a record, and lets those up to the number of one pass that the record does not know to have passed: members come and
// go, but what a person says of a wave is about no other.
func (s *Spread) Continue(r Record, past int) {
	s.Left = max(0, r.Wave-s.passed)
	if past > r.Wave {
		s.Open = max(s.Open, min(past-s.Left, len(s.Waves)-1))
	}
}

// Number returns the number of the wave with an index, from 1 on.
func (s Spread) Number(wave int) int { return s.Left + wave + 1 }

// endOf returns the place of the last member of the first n waves.
func (s Spread) endOf(n int) Place {
	if n == 0 {
		return Place{}
	}
	members := s.Waves[n-1].Members
	return members[len(members)-1].place()
}

// proven returns the place of the last member of the first waves, of all, that have passed because members vouched. While nothing continues by itself, it is
// that of the last member that has vouched: a wave may wait for months for a person. Otherwise, each member that vouches would be recorded alone.
func (s Spread) proven() Place {
	n := 0
	for n < len(s.Waves) && s.Waves[n].Passed() {
		n++
	}
	place := s.endOf(n)
	if !s.rests() {
		return place
	}
	unproven := 0
	for _, m := range s.Has() {
		if m.isWaitedFor() {
			unproven++
		}
		if m.Stage == Vouched && unproven <= maxUnproven {
			place = last(place, m.place())
		}
	}
	return place
}

// rests reports whether no member gets any further by itself.
func (s Spread) rests() bool {
	return s.Count(Rolling, Baking) == 0 && !slices.ContainsFunc(s.Next(), func(m Member) bool { return !m.First })
}

// Passes returns how many waves have passed by now. The caller records that before anything follows from it.
func (s Spread) Passes() int {
	open := s.Open
	for open < len(s.Waves)-1 && s.Waves[open].Passed() {
		open++
	}
	return open
}
