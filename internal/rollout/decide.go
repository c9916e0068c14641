package rollout

import (
	"slices"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
)

// intent is what should become of a workload: the plans of its pins and of its hashes.
type intent struct {
	pins, hashes plan.Plan
	// release is true when pins of the template are to go, although nothing else of the intent changes.
	release bool
	// resume is true when confrev's own pause is to end (rule 7).
	resume bool
	// inject are the references of the template that are to name something else.
	inject []injection
	// restart is true when pods are to be replaced although the template stays: for what rotates, where that is asked for.
	restart bool
}

// changes reports whether the template must be written.
func (i intent) changes() bool {
	return i.pins.Changed() || i.hashes.Changed() || i.release || len(i.inject) > 0
}

// text stands for all that the template should say.
func (i intent) text() string {
	text := i.pins.Pins.String() + " " + i.hashes.Pins.String()
	if i.onlyInjects() {
		text += " injected"
	}
	return text
}

// onlyInjects reports whether nothing but the names of references changes.
func (i intent) onlyInjects() bool {
	return len(i.inject) > 0 && !i.pins.Changed() && !i.hashes.Changed() && !i.release
}

// intend makes the plans.
func (r *Engine) intend(seen observed) intent {
	want := intent{pins: plan.Make(seen.pins), hashes: plan.Make(seen.hashes)}
	if seen.template == nil {
		return want
	}
	want.release = seen.asked.Mode.Attaches && seen.asked.Track.Enabled() && len(seen.pins.Pins) > 0 || seen.pins.PinsAbsence()
	if seen.unbounded {
		want.pins.Pins, want.pins.Held = seen.pins.Pins, seen.pins.Held
		return want
	}
	want.injectAgain(seen)
	return want
}

// injectAgain finds the references to change again, after some pin or hash is not to change after all.
func (i *intent) injectAgain(seen observed) {
	i.inject = nil
	if !seen.unbounded && (i.release || seen.follows()) {
		i.inject = seen.injections(i.pins.Pins, i.pins.Changed() || i.hashes.Changed() || i.release)
	}
}

// Change is what is about to be written to a workload's template, as far as it matters to when.
type Change struct {
	// Text stands for all that the template should say; empty when nothing is to be written.
	Text string
	// OnlyInjects is true when nothing but the names of references changes.
	OnlyInjects bool
	// Urgent is true for what does not wait.
	Urgent bool
	// NeedsPolicies is true for pins that only admission resolves.
	NeedsPolicies bool
	// Advances are the sources whose changes are rolled out. First pins are none.
	Advances []pin.Source
}

func (i intent) change(seen observed) Change {
	if !i.changes() {
		return Change{}
	}
	return Change{
		Text: i.text(), OnlyInjects: i.onlyInjects(), Urgent: i.pins.Urgent(), NeedsPolicies: seen.needsPolicies(i), Advances: i.advances(),
	}
}

func (i intent) advances() []pin.Source {
	var sources []pin.Source
	for _, d := range slices.Concat(i.pins.Decisions, i.hashes.Decisions) {
		if d.From != (pin.Pin{}) && d.To != d.From {
			sources = append(sources, d.Source)
		}
	}
	return sources
}

// needsPolicies reports whether an intent writes pins that only admission resolves.
func (seen observed) needsPolicies(want intent) bool {
	return seen.asked.Injection == optin.Admission && len(want.pins.Pins) > 0 && (want.pins.Changed() || len(want.inject) > 0)
}

// stamped returns the hashes that the template should have: those of the plan but the ones that are only noted.
func (i intent) stamped(seen observed) pin.Set {
	stamped := pin.Set{}
	for source, p := range i.hashes.Pins {
		if seen.baseline[source] != p {
			stamped[source] = p
		}
	}
	return stamped
}

// noted returns the hashes that the workload itself should note: those of its opting in, until its template has others.
func (i intent) noted(seen observed) pin.Set {
	noted := pin.Set{}
	for source, p := range seen.baseline {
		if wanted, planned := i.hashes.Pins[source]; !planned || wanted == p {
			noted[source] = p
		}
	}
	for _, d := range i.hashes.Decisions {
		if d.Noted != (pin.Pin{}) {
			noted[d.Source] = d.Noted
		}
	}
	return noted
}
