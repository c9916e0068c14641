package view

import (
	"fmt"
	"slices"

	"confrev.io/confrev/internal/plan"
)

// Outcome is what becomes of a workload.
type Outcome int

// The outcomes. If several apply, the first counts.
const (
	// RestartsNow: it rolls out as soon as the edit is applied.
	RestartsNow Outcome = iota
	// ReachedLater: it gets the edit, but not yet.
	ReachedLater
	// LacksSource: the edit removes, or does not have, what the workload requires.
	LacksSource
	// NotSeen: it could not be looked at.
	NotSeen
	// NotReached: the edit does not reach it.
	NotReached
)

// Outcome returns what becomes of the workload.
func (p Preview) Outcome() Outcome {
	has := func(verdicts ...plan.Verdict) bool {
		return slices.ContainsFunc(p.Sources, func(c SourceChange) bool { return slices.Contains(verdicts, plan.Verdict(c.Verdict)) })
	}
	switch {
	case p.RollsOut && p.When == "":
		return RestartsNow
	case p.RollsOut || has(plan.Waiting):
		return ReachedLater
	case has(plan.SourceMissing, plan.KeyMissing):
		return LacksSource
	case has(plan.Unknown):
		return NotSeen
	}
	return NotReached
}

// Count returns of how many workloads an edit has an outcome.
func (l *PreviewList) Count(outcome Outcome) int {
	n := 0
	for _, w := range l.Workloads {
		if w.Outcome() == outcome {
			n++
		}
	}
	return n
}

// Acts reports whether the edit does anything to a workload, now or later: rolls it out, or takes from it what it requires.
func (l *PreviewList) Acts() bool {
	return l.Count(RestartsNow)+l.Count(ReachedLater)+l.Count(LacksSource) > 0
}

// Partial reports whether more may happen than the list has.
func (l *PreviewList) Partial() bool { return l.Count(NotSeen)+len(l.Notes) > 0 }

// Headline returns what the edit does, as a sentence without a full stop.
func (l *PreviewList) Headline() string {
	text := "This edit restarts " + workloads(l.Count(RestartsNow))
	if n := l.Count(ReachedLater); n > 0 {
		text += fmt.Sprintf(", and reaches %d later", n)
	}
	if n := l.Count(LacksSource); n > 0 {
		text += fmt.Sprintf("; %s would lack a source or a key", workloads(n))
	}
	if n := l.Count(NotSeen); n > 0 {
		text += fmt.Sprintf("; %s could not be looked at", workloads(n))
	}
	return text
}

func workloads(n int) string {
	switch n {
	case 0:
		return "no workload"
	case 1:
		return "1 workload"
	}
	return fmt.Sprintf("%d workloads", n)
}
