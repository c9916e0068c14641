package spread

import "slices"

// firstVerdicts calls yield with the verdict on each workload that waits for its first pin. It needs no evidence that the content is good, since its
// pods read that already, and must not wait for a change that has failed. So all that counts is how many roll out.
func (s Spread) firstVerdicts(yield func(Member, Verdict) bool) (goesOn bool) {
	rolling := s.countFirst(Rolling) + s.Count(Rolling)
	for _, m := range s.First {
		if m.Stage != Waiting {
			continue
		}
		verdict := NoPlace
		if s.FirstBudget == 0 || m.Free || rolling < s.FirstBudget {
			if verdict = Goes; !m.Free {
				rolling++
			}
		}
		if !yield(m, verdict) {
			return false
		}
	}
	return true
}

// FirstPins returns the workloads whose first pin is to come, or is not rolled out.
func (s Spread) FirstPins() []Member {
	return slices.DeleteFunc(slices.Clone(s.First), func(m Member) bool { return m.Stage == Vouched })
}

func (s Spread) countFirst(stages ...Stage) int {
	n := 0
	for _, m := range s.First {
		if slices.Contains(stages, m.Stage) {
			n++
		}
	}
	return n
}
