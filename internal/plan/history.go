package plan

import (
	"cmp"
	"slices"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
)

// history is what one workload knows about one source's revisions: those that exist, and those that its template, its holders and
// its note mention, which may have been deleted since.
type history struct {
	use    podspec.Use
	source Source
	// pins are all those that the workload has ever rolled out for this source, as far as anything still shows them.
	pins []pin.Pin
	// last is the pin of the newest holder that has one.
	last pin.Pin
	// template is the template's own pin, which may not have been rolled out yet.
	template pin.Pin
	// note is the workload's note. isNoted is true if the note is about the template's pin, or about that of the newest holder if
	// the template has lost its own.
	note    pin.Note
	isNoted bool
	// stop is the number of the stop because of which confrev rolled the workload back; 0 if someone else did. order is that of the holder.
	stop  int
	order int64
	// live is true if pods read the source itself.
	live bool
	// keys is a digest of what the workload uses of the present content.
	keys string
}

func newHistory(in gated, use podspec.Use, source Source) history {
	h := history{
		use: use, source: source, live: in.Live, template: in.Pins[use.Source], note: in.Held[use.Source],
	}
	if source.Digests != nil {
		// Objects that are not sources have no keys.
		h.keys = source.Scheme + source.Digests.Sum(use.All, use.Keys)
	}
	var newest int64
	for _, holder := range in.Holders {
		p, ok := holder.Pins[use.Source]
		if !ok {
			continue
		}
		h.pins = append(h.pins, p)
		if h.last == (pin.Pin{}) || holder.Order > newest {
			h.last, newest = p, holder.Order
		}
	}
	before := in.Before[use.Source]
	h.readNote(before)
	h.readStop(in.Holders)
	if in.New && in.Chosen[use.Source] && !in.stays(use.Source) {
		// Creating a workload on an older revision passes over the present content, as an undo does.
		h.pins = append(h.pins, pin.Pin{Revision: source.Name, Number: h.currentNumber()})
	}
	if before != (pin.Pin{}) && before != h.template {
		h.pins = append(h.pins, before)
		if h.isCurrent(before.Revision) {
			// It was equivalent to the current revision, whose own number may be higher by now (rule 5).
			h.pins = append(h.pins, pin.Pin{Revision: before.Revision, Number: h.currentNumber()})
		}
	}
	return h
}

// readNote uses the workload's note as evidence, unless it is outdated.
func (h *history) readNote(before pin.Pin) {
	if h.note == (pin.Note{}) || h.note.From.Revision == h.note.On.Revision {
		return
	}
	if h.last == (pin.Pin{}) {
		h.last = h.note.On
	}
	h.isNoted = h.note.On == h.template || h.template == pin.Pin{} && h.note.On == h.last
	// A held workload that goes back further was rolled back from the same revision.
	h.isNoted = h.isNoted || h.note.On == before && !h.note.Ended
	if h.isNoted && !h.note.Ended {
		h.pins = append(h.pins, h.note.From)
	}
}

// readStop uses the note of a stop, unless the workload has had the content again since: then it was someone else who rolled it back, and an
// older note came back with the template.
func (h *history) readStop(holders []Holder) {
	if !h.isNoted || h.note.Ended || h.template != (pin.Pin{}) && h.template != h.note.On {
		return
	}
	if order := newestOrder(holders, h.use.Source, h.note.From.Revision); order == 0 || order == h.note.Order {
		h.stop, h.order = h.note.Stop, h.note.Order
	}
}

// newestOrder returns the order of the newest holder that has a revision of a source; 0 if there is none.
func newestOrder(holders []Holder, source pin.Source, revision string) int64 {
	var newest int64
	for _, holder := range holders {
		if holder.Pins[source].Revision == revision {
			newest = max(newest, holder.Order)
		}
	}
	return newest
}

// isResumed reports whether the workload was rolled back because of a stop that a person has ended.
func (h history) isResumed() bool { return h.stop > 0 && h.stop <= h.source.Resumed }

// numbers calls yield with the name and number of every known revision.
func (h history) numbers(yield func(revision string, number int64)) {
	for _, revision := range h.source.Revisions {
		if plausible(revision.Number) {
			yield(revision.Name, revision.Number)
		}
	}
	h.ownNumbers(yield)
}

// ownNumbers calls yield with the names and numbers of the workload's own pins, present and past.
func (h history) ownNumbers(yield func(revision string, number int64)) {
	for _, p := range append(slices.Clone(h.pins), h.template, h.note.From) {
		if p != (pin.Pin{}) && plausible(p.Number) {
			yield(p.Revision, p.Number)
		}
	}
}

// plausible reports whether a number is plausible. Numbers that leave no room above them were written by hand or come from a backup:
// they are part of the history, but not trusted. The number above a plausible one is one that a revision can have, and not the last.
func plausible(number int64) bool { return number < pin.MaxNumber-1 }

// MaxLeap is how far the number of the present content's revision may be above all others without a pin that shows it. Without a limit, one
// forged number would use up all others. Those that confrev writes are a few above each other, and there are enough for a thousand million leaps.
const MaxLeap = 1_000_000

// currentNumber returns the number of the present content's revision: its own if that is strictly the highest, otherwise one more
// than the highest (rule 5). A hold that has ended stands for other content that was there since.
func (h history) currentNumber() int64 {
	own, others := int64(0), int64(0)
	if ended := h.ended(); plausible(ended) {
		others = ended
	}
	h.numbers(func(revision string, number int64) {
		if revision == h.source.Name {
			own = max(own, number)
		} else {
			others = max(others, number)
		}
	})
	if own > others {
		return own
	}
	return others + 1
}

// isCurrent reports whether a revision has the present content, as far as the workload uses it (rule 3). A revision with unknown
// content is not current.
func (h history) isCurrent(revision string) bool {
	if revision == h.source.Name {
		return true
	}
	for _, r := range h.source.Revisions {
		if r.Name == revision {
			return h.sameContent(r)
		}
	}
	// The revision is deleted, but the note may record what the workload used of it.
	return h.isNoted && !h.note.Ended && h.note.From.Revision == revision && h.hasNotedKeys()
}

// hasNotedKeys reports whether the source has what the workload used of the revision in the note. The note is compared under the
// key that it names. If that key is lost, the content is assumed to be unchanged (rule 22).
func (h history) hasNotedKeys() bool {
	switch stated := content.SchemeOf(h.note.Keys); {
	case h.note.Keys == "":
		return false
	case stated == h.source.Scheme || h.source.Scheme == "":
		return h.note.Keys == h.keys
	case stated == "":
		return h.note.Keys == h.source.PlainDigests.Sum(h.use.All, h.use.Keys)
	}
	return true
}

func (h history) sameContent(r Revision) bool {
	if r.Hash == h.source.Hash {
		return true
	}
	return !h.use.All && r.Digests != nil && r.Digests.SameKeys(h.source.Digests, h.use.Keys)
}

// rolledOut reports whether the workload rolled out the present content after all other contents that it had, and which pin shows
// that. A revision that is current again (rule 5) is new to a workload that has had another since. Only the numbers of the
// workload's own pins are compared, each of which was assigned above those before it. Numbers of other workloads' revisions come
// from other writers, which may not have seen each other's. What was rolled out before a hold ended is no evidence any more.
func (h history) rolledOut() (shown pin.Pin, ok bool) {
	others := h.ended()
	h.ownNumbers(func(revision string, number int64) {
		if !h.isCurrent(revision) {
			others = max(others, number)
		}
	})
	for _, p := range h.pins {
		if p.Number > others && p.Number > shown.Number && h.isCurrent(p.Revision) {
			shown, ok = p, true
		}
	}
	return shown, ok
}

// lastPin returns the pin that the newest holder has, if its revision still exists.
func (h history) lastPin() (pin.Pin, bool) {
	for _, r := range h.source.Revisions {
		if r.Name == h.last.Revision {
			return h.last, true
		}
	}
	return pin.Pin{}, false
}

// readsAnother reports whether the workload was held until now and its source is back at what the template stands for. Pods that
// read it live may have started with the content in between, so they are rolled although the template is right (rule 4).
func (h history) readsAnother() bool {
	return h.live && h.isNoted && !h.note.Ended && h.note.On == h.template && h.isCurrent(h.template.Revision)
}

// SortByNumber sorts revisions so that the highest number comes first, and the one with the name last at the end.
func SortByNumber(revisions []Revision, last string) {
	order := func(r Revision) int64 {
		if r.Name == last {
			return -1
		}
		return r.Number
	}
	slices.SortFunc(revisions, func(a, b Revision) int { return cmp.Compare(order(b), order(a)) })
}

// HighestNumber returns the highest number that the workload itself shows of a source's revision.
func (in Input) HighestNumber(source pin.Source, revision string) int64 {
	pins := []pin.Pin{in.Pins[source], in.Held[source].From, in.Held[source].On}
	for _, holder := range in.Holders {
		pins = append(pins, holder.Pins[source])
	}
	var highest int64
	for _, p := range pins {
		if p.Revision == revision {
			highest = max(highest, p.Number)
		}
	}
	return highest
}

// ended returns the number up to which pins belong to a hold that has ended, while the template still has its pin.
func (h history) ended() int64 {
	if h.isNoted && h.note.Ended {
		return h.note.From.Number
	}
	return 0
}

func (h history) heldNote(from, on pin.Pin) pin.Note {
	note := pin.Note{From: from, On: on, Keys: h.keys}
	if on == h.note.On {
		note.Stop, note.Order = h.stop, h.order
	}
	return note
}

// NoteOfStop returns the note of a workload that is rolled back from the present content because of a stop; 0 for none.
func NoteOfStop(holders []Holder, d Decision, stop int) pin.Note {
	if stop == 0 {
		return pin.Note{From: d.Current, On: d.To}
	}
	return pin.Note{From: d.Current, On: d.To, Stop: stop, Order: newestOrder(holders, d.Source, d.Current.Revision)}
}

// endedNote returns the note of a hold that has ended while the template keeps its pin, if there is anything to note. Without it, the
// holders would show the hold again as soon as the source returns to what was rolled back.
func (h history) endedNote() pin.Note {
	if h.template == (pin.Pin{}) {
		return pin.Note{}
	}
	// The number of the pin's own revision may be above theirs, if it is current again (rule 5).
	past := pin.Note{On: h.template, Ended: true}
	for _, p := range h.pins {
		if p.Number > max(h.template.Number, past.From.Number) && !h.isCurrent(p.Revision) {
			past.From = p
		}
	}
	if h.ended() > past.From.Number {
		past.From = h.note.From
	}
	if past.From == (pin.Pin{}) {
		return pin.Note{}
	}
	return past
}
