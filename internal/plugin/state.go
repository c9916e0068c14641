package plugin

import (
	"fmt"
	"slices"
	"strings"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/workload"
)

// state is how far a workload is with a source's present content.
type state string

// The states, from the one that most needs somebody's attention on.
const (
	stateMissing     state = "Missing"
	stateFailed      state = "Failed"
	stateNotResolved state = "NotResolved"
	stateHeld        state = "Held"
	statePaused      state = "Paused"
	stateWaiting     state = "Waiting"
	stateUnknown     state = "Unknown"
	stateAdvancing   state = "Advancing"
	stateRolledOut   state = "RolledOut"
	// stateUntracked is that of what confrev does not follow; it is no fault.
	stateUntracked state = "Untracked"
)

var byUrgency = []state{
	stateMissing, stateFailed, stateNotResolved, stateHeld, statePaused, stateWaiting, stateUnknown, stateAdvancing, stateRolledOut, stateUntracked,
}

// done tells whether nothing is left to do.
func (s state) done() bool { return s == stateRolledOut || s == stateUntracked }

// stays reports whether a person has to act: waiting alone does not help.
func (s state) stays() bool {
	return slices.Contains([]state{stateMissing, stateFailed, stateHeld, statePaused, stateWaiting}, s)
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
	advance optin.Advance
	// pods has the pins of each pod; nil when pods do not tell: they may not be seen, or end with the configuration that they
	// began with.
	pods []pin.Set
}

// judge gives the state of one source of a workload, and what to say of it.
func (p progress) judge(d plan.Decision) (state, string) {
	switch d.Verdict {
	case plan.SourceMissing:
		return stateMissing, fmt.Sprintf("%s does not exist", d.Source)
	case plan.KeyMissing:
		return stateMissing, fmt.Sprintf("%s lacks %s", d.Source, strings.Join(d.Keys, ", "))
	case plan.Held:
		if p.failed {
			return p.rollout()
		}
		return stateHeld, "rolled back; stays until the source changes, a deploy changes code that was undone, or it is resumed"
	case plan.Waiting:
		return stateWaiting, fmt.Sprintf("%s: %s", keys.Advance, p.advance)
	case plan.Unknown:
		return stateUnknown, "could not be seen"
	}
	switch {
	case p.paused != "" && (d.From != d.To || p.rolling != ""):
		return statePaused, p.paused
	case d.From != d.To:
		return stateAdvancing, "not pinned yet"
	case p.rolling != "":
		return p.rollout()
	}
	if n := p.without(d); n > 0 {
		return stateNotResolved, fmt.Sprintf("%d of %d pods do not carry the pin", n, len(p.pods))
	}
	if unused(d) {
		return stateRolledOut, onlyUnused
	}
	return stateRolledOut, ""
}

const onlyUnused = "only keys that it does not use have changed since"

// unused reports whether the source has changed, in keys that the workload does not use (rule 3).
func unused(d plan.Decision) bool {
	return d.From != (pin.Pin{}) && d.Current != (pin.Pin{}) && d.From.Revision != d.Current.Revision && d.Noted == (pin.Pin{})
}

// rollout is how far the controllers are with the template as it is.
func (p progress) rollout() (state, string) {
	switch {
	case p.failed:
		return stateFailed, p.rolling
	case p.rolling != "" && p.needs:
		return stateWaiting, p.rolling
	case p.rolling != "":
		return stateAdvancing, p.rolling
	}
	return stateRolledOut, ""
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

// worst gives the state that most needs attention.
func worst(all []state) state {
	for _, s := range byUrgency {
		if slices.Contains(all, s) {
			return s
		}
	}
	return stateUntracked
}

// runsOn tells whether pods of a kind live on and are replaced, rather than end with the configuration that they began with.
func runsOn(kind workload.Kind) bool { return kind.Holder != workload.Job }
