package spread

import "slices"

// firstVerdicts calls yield with the verdict on each workload that waits for its first pin. It needs no evidence that the content is good, since its
// pods read that already, and must not wait for a change that has failed. So all that counts is how many roll out.
func (s Spread) firstVerdicts(yield func(Member, Verdict) bool) (goesOn bool) {
	unfinished, inFlight := 0, s.countFirst(Rolling)+s.Count(Rolling)
	for _, m := range s.First {
		if m.Stage == Waiting {
			verdict := NoPlace
			if s.FirstBudget == 0 || m.Free || unfinished < s.FirstBudget && inFlight < s.FirstBudget {
				if verdict = Goes; !m.Free {
					inFlight++
				}
			}
			if !yield(m, verdict) {
				return false
			}
		}
		if m.Stage == Waiting && !m.Free || m.Stage == Rolling {
			unfinished++
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
