// Package plan decides which revision each source of a workload should be pinned to (rules 2 to 6). It is a function of what was
// observed, and when: no client, no clock, no context. Controller, webhook and command line call the same functions.
package plan

import (
	"slices"
	"time"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/waiting"
)

// Revision is what is known about one revision of a source.
type Revision struct {
	Name   string
	Number int64
	Hash   content.Hash
	// Digests are nil if they are not known.
	Digests content.Digests
}

// Source is what is known about one source at one moment.
type Source struct {
	// Present is false if the source does not exist. Then Hash, Digests and Name are those of empty content, which is what
	// absence means to a workload whose uses are all optional (rule 6).
	Present bool
	Hash    content.Hash
	Digests content.Digests
	// Scheme is how notes name the key with which Digests were made; empty without a key (rule 22).
	Scheme string
	// PlainDigests are what Digests would be without a key; nil if there is no key, or if the caller does not need them.
	PlainDigests content.Digests
	// Name is the name that the revision of the present content has, or would have.
	Name string
	// Revisions are those that exist, in any order.
	Revisions []Revision
	// Rotates is true for sources that pods read live and that no undo holds (policy rotate). It applies to plans of hashes.
	Rotates bool
	// Gates are what the source says about when pins may move.
	Gates []waiting.Gate
	// Turn is what the workload waits for because of how others take the change; zero if it may go.
	Turn waiting.Wait
	// Instead is what a workload gets that has no pin yet, if the change is stopped: what others work with. It is zero if there is nothing.
	Instead pin.Pin
	// Later is true if a first pin does not move yet, and Until is what it waits for; that is zero where the controller is about to decide.
	Later bool
	Until waiting.Wait
	// Resumed is how many stops of the present content a person has ended (rule 40).
	Resumed int
}

// FollowingNumber returns the number that the revision of the present content has, or would get, as far as the source's revisions show
// (rule 5).
func (s Source) FollowingNumber() int64 {
	own, others := int64(0), int64(0)
	for _, r := range s.Revisions {
		switch {
		case !plausible(r.Number):
		case r.Name == s.Name:
			own = r.Number
		default:
			others = max(others, r.Number)
		}
	}
	if own > others {
		return own
	}
	return others + 1
}

// Holder is an object that keeps one of the workload's templates alive, such as a ReplicaSet.
type Holder struct {
	// Order is higher the later the workload last rolled out this template.
	Order int64
	Pins  pin.Set
}

// Input is everything that a plan depends on.
type Input struct {
	// Uses are the uses of the tracked sources, sorted; see Track.
	Uses []podspec.Use
	// Sources has what is known about each source of Uses. A source that is not in it could not be observed, and keeps its pin.
	Sources map[pin.Source]Source
	// Pins are those of the workload's template now.
	Pins pin.Set
	// Before are the pins of the template that is being replaced by one with Pins. They were rolled out, whether or not a holder
	// shows it.
	Before pin.Set
	// Held are the workload's notes of earlier holds.
	Held    pin.Notes
	Holders []Holder
	// Occasion is why the plan is made.
	Occasion Occasion
	// Deploys is true if the request does not only restart the workload (rule 33).
	Deploys bool
	// Gates are what the workload and its namespace say about when pins may move (rules 33 and 34), and Now is the present time.
	Gates []waiting.Gate
	Now   time.Time
	// Live is true if pods read the sources themselves, whatever the template says. Its pins are hashes then.
	Live bool
	// Replaced is true if the template changes anyway, so that its new pods read the present content of their sources.
	Replaced bool
	// Chosen are the sources whose pins may not move in this request, since its sender chose them (rule 21.1).
	Chosen map[pin.Source]bool
	// Ended are the sources whose hold is ended by a deploy (rule 21.3).
	Ended map[pin.Source]bool
	// Unfollowed are the sources that the template refers to and that are not in Uses.
	Unfollowed map[pin.Source]Standing
	// Undo is true for a request that goes back to a holder (rule 21.2).
	Undo bool
	// New is true for a workload that is being created, so that no holder can show what it ran (rule 21.1).
	New bool
}

// Occasion is why a plan is made. First pins are made on each; whether pins may move from one revision to another depends on it.
type Occasion int

// The occasions.
const (
	// Edit: sources may have changed.
	Edit Occasion = iota
	// Change: a request changes something else in the template. Then the absence of an optional source is pinned too.
	Change
	// Request: a request changes nothing else in the template. Pins stay: sources settle first, and manually written pins are respected.
	Request
)

// Verdict is what the plan found about one source.
type Verdict string

// The verdicts.
const (
	// InSync: the template is pinned to the present content, as far as the workload uses it (rule 3).
	InSync Verdict = "InSync"
	// Pinned: the template has no pin of this source, and gets one at once (rule 4).
	Pinned Verdict = "Pinned"
	// Advanced: the pin moves to current (rule 4).
	Advanced Verdict = "Advanced"
	// Held: the workload was rolled back from current, and stays (rule 4).
	Held Verdict = "Held"
	// Waiting: the pin would move to current, but not now (rule 32).
	Waiting Verdict = "Waiting"
	// SourceMissing: the source is required and does not exist, or it only restarts the workload and is gone (rule 6).
	SourceMissing Verdict = "SourceMissing"
	// KeyMissing: the source lacks a required key (rule 6).
	KeyMissing Verdict = "KeyMissing"
	// Absent: the source is optional and does not exist, and the workload has never had a pin of it, which is fine. It gets one
	// when its template changes anyway (rule 6).
	Absent Verdict = "Absent"
	// Unknown: the source could not be observed.
	Unknown Verdict = "Unknown"
)

// Decision is the plan's decision about one source.
type Decision struct {
	Source  pin.Source
	Verdict Verdict
	// From is the template's pin before; zero if there was none.
	From pin.Pin
	// To is the template's pin after; zero if there is none.
	To pin.Pin
	// Current is the revision of the present content. It is zero if the source does not exist and absence cannot stand for empty
	// content.
	Current pin.Pin
	// Keys are the required keys that are missing, for KeyMissing.
	Keys []string
	// Noted is the hash of what the pods read, if the template has another one. The workload itself notes it, which rolls out
	// nothing (policy rotate). Otherwise it is zero.
	Noted pin.Pin
	// Wait is what the pin waits for, if the verdict is Waiting and the occasion is not Request. For a first pin, it is why others do not get the
	// present content, if that is stopped.
	Wait waiting.Wait
}

// IsFirst reports whether the template has no pin of the source yet.
func (d Decision) IsFirst() bool { return d.From == pin.Pin{} }

// IsLater reports whether the template has a pin of the source already.
func (d Decision) IsLater() bool { return !d.IsFirst() }

// Plan is what the workload should become.
type Plan struct {
	// Pins are those that the template should have if it changes. Stale pins are not among them: they are dropped together with
	// another change, since dropping them alone would be a rollout (rule 21.6).
	Pins pin.Set
	// Held are the notes that the workload should carry.
	Held pin.Notes
	// Decisions has one for each tracked source, sorted by source.
	Decisions []Decision
}

// Changed reports whether the template's pins must be written.
func (p Plan) Changed() bool {
	return slices.ContainsFunc(p.Decisions, func(d Decision) bool { return d.From != d.To })
}

// Repin replaces what a decision of the plan pins: with the revision that was actually created, or with the previous pin if none
// could be.
func (p *Plan) Repin(d *Decision, to pin.Pin) {
	d.To = to
	if to == (pin.Pin{}) {
		delete(p.Pins, d.Source)
		return
	}
	p.Pins[d.Source] = to
}

// Urgent reports whether some pin must be written at once, without settling: a template without a pin does not keep the promise
// (rule 4). With an optional source that does not exist, it does.
func (p Plan) Urgent() bool {
	return slices.ContainsFunc(p.Decisions, func(d Decision) bool {
		return d.IsFirst() && d.To != pin.Pin{} && d.Verdict != Absent
	})
}

// Make returns the plan for an input. The same input always results in the same plan.
func Make(in Input) Plan {
	alone, _ := Both(in, Input{})
	return alone
}

// plan returns the plan for an input in which some sources wait.
func (in gated) plan() Plan {
	out := Plan{Pins: pin.Set{}, Held: pin.Notes{}}
	for _, use := range in.Uses {
		d, note := decide(in, use)
		out.Decisions = append(out.Decisions, d)
		if d.To != (pin.Pin{}) {
			out.Pins[use.Source] = d.To
		}
		if note != (pin.Note{}) {
			out.Held[use.Source] = note
		}
	}
	for source, p := range in.Pins {
		if !in.uses(source) && !in.Unfollowed[source].Stale(in.Undo) {
			out.Pins[source] = p
		}
	}
	out.delayFirst(in.Input)
	if in.Occasion == Change || out.Changed() {
		out.pinAbsences()
	}
	return out
}

// pinAbsences pins the optional sources that do not exist to empty content, since the template changes anyway (rule 6).
func (p *Plan) pinAbsences() {
	for i := range p.Decisions {
		if d := &p.Decisions[i]; d.Verdict == Absent && d.Current != (pin.Pin{}) {
			p.Repin(d, d.Current)
		}
	}
}

func decide(in gated, use podspec.Use) (Decision, pin.Note) {
	from := in.Pins[use.Source]
	d := Decision{Source: use.Source, From: from, To: from}
	source, known := in.Sources[use.Source]
	if !known {
		d.Verdict = Unknown
		return d, in.Held[use.Source]
	}
	if !source.Present && (use.Required || in.Live) {
		d.Verdict = absence(use, from)
		return d, in.Held[use.Source]
	}
	h := newHistory(in, use, source)
	d.Current = pin.Pin{Revision: source.Name, Number: h.currentNumber()}
	if d.Keys = missingKeys(use, source); len(d.Keys) > 0 {
		d.Verdict = KeyMissing
		return d, in.Held[use.Source]
	}
	if source.Rotates {
		d = h.rotate(d, in.stays(use.Source), in.Replaced)
		return in.explain(d), pin.Note{}
	}
	d, note := h.decide(d, in.stays(use.Source) || in.Chosen[use.Source], in.Ended[use.Source])
	if d.Verdict == Pinned && !source.Present && h.last == (pin.Pin{}) {
		// It has never had a pin, and its pods have everything that there is.
		d.Verdict, d.To = Absent, pin.Pin{}
	}
	return in.explain(source.passesOver(use, d)), note
}

// decide returns the decision about a source that has everything that the workload requires of it (rule 4), which is nothing if
// it may be absent.
func (h history) decide(d Decision, stay, ended bool) (Decision, pin.Note) {
	rolledOut, wasRolledOut := h.rolledOut()
	before, hadPin := h.lastPin()
	switch {
	case d.From == pin.Pin{} && hadPin && wasRolledOut && rolledOut.Number > before.Number && !h.isCurrent(before.Revision):
		// Something took the pin away (kubectl replace) while the workload was held. It stays held.
		d.Verdict, d.To = Held, before
		return d, h.heldNote(rolledOut, before)
	case d.From == pin.Pin{}:
		d.Verdict, d.To = Pinned, d.Current
	case h.readsAnother() && stay:
		d.Verdict = Waiting
		return d, h.note
	case h.readsAnother():
		d.Verdict, d.To = Advanced, d.Current
	case h.isCurrent(d.From.Revision):
		d.Verdict = InSync
		return d, h.endedNote()
	case wasRolledOut && ended && stay:
		d.Verdict = Waiting
		return d, pin.Note{From: rolledOut, On: d.From, Ended: true}
	case wasRolledOut && h.isResumed() && stay:
		// Its number must not change, as it would after a hold that has ended: the change is the same, and so is its record.
		d.Verdict = Waiting
		return d, h.heldNote(rolledOut, d.From)
	case wasRolledOut && !ended && !h.isResumed():
		d.Verdict = Held
		return d, h.heldNote(rolledOut, d.From)
	case stay && h.isNoted:
		d.Verdict = Waiting
		return d, h.endedNote()
	case stay:
		d.Verdict = Waiting
	default:
		d.Verdict, d.To = Advanced, d.Current
	}
	return d, pin.Note{}
}

// absence returns the verdict on a source that does not exist. A pin stays: its revision has everything that the pods need.
func absence(use podspec.Use, from pin.Pin) Verdict {
	if use.Required || from != (pin.Pin{}) {
		return SourceMissing
	}
	return Absent
}

func missingKeys(use podspec.Use, source Source) []string {
	var missing []string
	for _, key := range use.RequiredKeys {
		if _, ok := source.Digests[key]; !ok {
			missing = append(missing, key)
		}
	}
	return missing
}

// rotate decides about sources that pods read live and that no undo holds (policy rotate). Equal hashes with different numbers
// are different rotations: the content was replaced in between, and pods may have started with the replacement.
func (h history) rotate(d Decision, stay, replaced bool) Decision {
	_, wasRolledOut := h.rolledOut()
	d.Verdict = InSync
	switch {
	case d.From == d.Current:
	case d.From == pin.Pin{}:
		d.Verdict, d.To = Pinned, d.Current
	case replaced:
		// The pods are about to be created.
		d.Verdict, d.To = Advanced, d.Current
	case wasRolledOut:
		// Something brought an earlier template back. Its pods read the present content of the source, so they need not be
		// replaced.
		d.Noted = d.Current
	case stay:
		d.Verdict = Waiting
	default:
		d.Verdict, d.To = Advanced, d.Current
	}
	return d
}
