package plan

import (
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
)

// history is what one workload knows of one source's revisions: those that exist, and those that its template, its
// holders and its note speak of, which may have been deleted since.
type history struct {
	use    podspec.Use
	source Source
	// pins are all that the workload ever rolled out of this source and that something still remembers.
	pins []pin.Pin
	// last is the pin of the newest holder that has one.
	last pin.Pin
	// template is the template's own pin, which may not have been rolled out yet.
	template pin.Pin
}

func newHistory(in Input, use podspec.Use, source Source) history {
	h := history{use: use, source: source, template: in.Pins[use.Source]}
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
	if p, ok := in.Held[use.Source]; ok {
		h.pins = append(h.pins, p)
	}
	return h
}

// numbers calls yield with every revision's name and number that is known from anywhere. Numbers that leave no room above
// them come from a hand or a backup: they are history, not truth, and count as none.
func (h history) numbers(yield func(revision string, number int64)) {
	known := func(revision string, number int64) {
		if number < pin.MaxNumber {
			yield(revision, number)
		}
	}
	for _, revision := range h.source.Revisions {
		known(revision.Name, revision.Number)
	}
	for _, p := range h.pins {
		known(p.Revision, p.Number)
	}
	if h.template != (pin.Pin{}) {
		known(h.template.Revision, h.template.Number)
	}
}

// currentNumber gives the number of the present content's revision: its own when that is strictly the highest, else one
// more than the highest (rule 5).
func (h history) currentNumber() int64 {
	var own, others int64
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

// isCurrent tells whether a revision has the present content, as far as the workload uses it (rule 3). A revision whose
// content nobody knows is not current.
func (h history) isCurrent(revision string) bool {
	if revision == h.source.Name {
		return true
	}
	for _, r := range h.source.Revisions {
		if r.Name == revision {
			return h.sameContent(r)
		}
	}
	return false
}

func (h history) sameContent(r Revision) bool {
	if r.Hash == h.source.Hash {
		return true
	}
	return !h.use.All && r.Digests != nil && r.Digests.SameKeys(h.source.Digests, h.use.Keys)
}

// rolledOut tells whether the workload rolled out the present content since the source last got it, and which pin shows
// that. It compares with the numbers of all other contents: a revision that was current again later (rule 5) has a
// number above theirs only from then on.
func (h history) rolledOut() (shown pin.Pin, ok bool) {
	var others int64
	h.numbers(func(revision string, number int64) {
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

// lastPin gives the pin that the newest holder has, if its revision still exists.
func (h history) lastPin() (pin.Pin, bool) {
	for _, r := range h.source.Revisions {
		if r.Name == h.last.Revision {
			return h.last, true
		}
	}
	return pin.Pin{}, false
}
