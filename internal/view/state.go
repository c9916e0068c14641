package view

import (
	"fmt"
	"slices"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/waiting"
)

// State is how far a workload is with a source's present content.
type State string

// The states, from the one that most needs attention.
const (
	Missing     State = "Missing"
	Failed      State = "Failed"
	NotResolved State = "NotResolved"
	Held        State = "Held"
	Paused      State = "Paused"
	Waiting     State = "Waiting"
	Unknown     State = "Unknown"
	Advancing   State = "Advancing"
	RolledOut   State = "RolledOut"
	// Untracked is that of what confrev does not follow; it is no fault.
	Untracked State = "Untracked"
)

var byUrgency = []State{
	Missing, Failed, NotResolved, Held, Paused, Waiting, Unknown, Advancing, RolledOut, Untracked,
}

// Done reports whether nothing is left to do.
func (s State) Done() bool { return s == RolledOut || s == Untracked }

// needsAction reports whether a person has to act: waiting alone does not help.
func (s State) needsAction() bool {
	return slices.Contains([]State{Missing, Failed, Held, Paused, Waiting, Unknown}, s)
}

// progress is what is known of a workload beyond the plan of one source.
type progress struct {
	// rolling is what its controllers have yet to do, empty when nothing.
	rolling string
	// failed is true when one of them reports that the rollout failed, needs when what is left takes a person.
	failed, needs bool
	paused        string
	// resumes is true when confrev itself ends the pause.
	resumes bool
	// pods has the pins of each pod; nil when pods do not tell: they may not be seen, or end with the configuration that they
	// began with.
	pods []pin.Set
}

// judge returns the state of one source of a workload, and what to say of it.
func (p progress) judge(d plan.Decision) (State, string) {
	switch d.Verdict {
	case plan.SourceMissing, plan.KeyMissing:
		return Missing, d.Source.String() + " " + ExplainVerdict(d)
	case plan.Held:
		if p.failed {
			return p.rollout()
		}
		return Held, "rolled back; stays until the source changes, a deploy changes code that was undone, or it is resumed"
	case plan.Waiting:
		if d.To == (pin.Pin{}) {
			return Waiting, ExplainVerdict(d)
		}
		return Waiting, "waits " + d.Wait.String()
	case plan.Unknown:
		return Unknown, ExplainVerdict(d)
	}
	switch {
	case p.paused != "" && (d.From != d.To || p.rolling != ""):
		return Paused, p.paused
	case d.From != d.To:
		return Advancing, "not pinned yet"
	case p.rolling != "":
		return p.rollout()
	}
	if n := p.without(d); n > 0 {
		return NotResolved, fmt.Sprintf("%d of %d pods do not carry the pin", n, len(p.pods))
	}
	if unused(d) {
		return RolledOut, OnlyUnused
	}
	return RolledOut, ""
}

// OnlyUnused is the message of a source of which only keys have changed that a workload does not use: its numbers differ, and
// nothing is wrong.
const OnlyUnused = "only keys that it does not use have changed since"

// unused reports whether the source has changed, in keys that the workload does not use (rule 3).
func unused(d plan.Decision) bool {
	return d.From != (pin.Pin{}) && d.Current != (pin.Pin{}) && d.From.Revision != d.Current.Revision && d.Noted == (pin.Pin{})
}

// rollout returns how far the controllers are with the template as it is.
func (p progress) rollout() (State, string) {
	switch {
	case p.failed:
		return Failed, p.rolling
	case p.rolling != "" && p.needs:
		return Waiting, p.rolling
	case p.rolling != "":
		return Advancing, p.rolling
	}
	return RolledOut, ""
}

// without counts the pods that do not carry what a source is pinned to. A number that was raised since (rule 5) is no other
// content.
func (p progress) without(d plan.Decision) (n int) {
	for _, pod := range p.pods {
		if d.From != (pin.Pin{}) && pod[d.Source].Revision != d.From.Revision {
			n++
		}
	}
	return n
}

// worst returns the state of the sources that most needs attention.
func worst(all []SourceStatus) State {
	for _, s := range byUrgency {
		if slices.ContainsFunc(all, func(source SourceStatus) bool { return source.State == s }) {
			return s
		}
	}
	return Untracked
}

// NothingCopied returns why a workload of a mode without pins has none.
func NothingCopied(mode optin.Mode) string { return fmt.Sprintf("nothing is copied in mode %s", mode) }

// ExplainVerdict returns what the verdict on a source means for a workload. status, preview and the verbs that move pins use these words.
func ExplainVerdict(d plan.Decision) string {
	switch d.Verdict {
	case plan.InSync:
		if d.From != d.To {
			return fmt.Sprintf("rolled out to revision %d with the workload", d.To.Number)
		}
		return "nothing that the workload uses changes"
	case plan.Pinned:
		if d.Wait.Reason == waiting.Stopped && d.To != d.Current {
			return fmt.Sprintf("pinned for the first time, to revision %d, since the change to revision %d was stopped", d.To.Number, d.Current.Number)
		}
		return fmt.Sprintf("pinned for the first time, to revision %d", d.To.Number)
	case plan.Advanced:
		return fmt.Sprintf("revision %d -> %d", d.From.Number, d.To.Number)
	case plan.Held:
		return fmt.Sprintf("held at revision %d: it was rolled back from this content", d.To.Number)
	case plan.Waiting:
		if d.To == (pin.Pin{}) {
			return "not pinned yet: waits " + d.Wait.String()
		}
		return fmt.Sprintf("waits at revision %d %s", d.To.Number, d.Wait)
	case plan.KeyMissing, plan.SourceMissing:
		// No hash has the form of a revision's name.
		return d.Missing(pin.Names(d.Source.Name, d.From.Revision))
	case plan.Absent:
		if d.From != d.To {
			return fmt.Sprintf("does not exist, and is optional: pinned to revision %d, which is empty", d.To.Number)
		}
		return "does not exist, and is optional"
	}
	return "could not be looked at"
}
