package plan

import (
	"maps"
	"slices"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
)

// Template is the part of a request's or holder's template that rule 21 compares.
type Template struct {
	// Code is a digest (podspec.Code.Digest).
	Code string
	Pins pin.Set
}

func (t Template) equal(other Template) bool {
	return t.Code == other.Code && maps.Equal(t.Pins, other.Pins)
}

// Undo finds the holders that a request may go back to (rule 21.2): those that have the request's code and pins, and are not the
// holder of the template that the request replaces. It returns their indexes, none if the request is no undo, and the pins that the
// template then has: the first one's, and the previous ones where it has none. A webhook that is called again sees exactly these
// pins, except for those that it dropped (rule 21.6).
func Undo(old, request Template, holders []Template, dropped map[pin.Source]bool) (pins pin.Set, to []int) {
	left := func(pins pin.Set) pin.Set {
		pins = maps.Clone(pins)
		maps.DeleteFunc(pins, func(source pin.Source, _ pin.Pin) bool { return dropped[source] })
		return pins
	}
	for i, holder := range holders {
		if holder.Code != request.Code || holder.equal(old) {
			continue
		}
		merged := left(old.Pins)
		if merged == nil {
			merged = pin.Set{}
		}
		maps.Copy(merged, left(holder.Pins))
		matches := maps.Equal(request.Pins, left(holder.Pins)) || maps.Equal(request.Pins, merged)
		// A request cannot go back to what is already running.
		if !matches || (Template{holder.Code, merged}).equal(old) {
			continue
		}
		if to = append(to, i); len(to) == 1 {
			pins = merged
		}
	}
	return pins, to
}

// ChosenPins returns the pins from which to plan for a request that replaces a template with the pins of in (which has none if
// the request creates a workload, rule 21.1), and the sources that must keep theirs, since the request's sender chose them. Pins
// of the request that do not name a revision of their source are returned as refused.
func ChosenPins(in Input, request pin.Set) (pins pin.Set, chosen map[pin.Source]bool, refused []pin.Source) {
	pins, chosen = maps.Clone(in.Pins), map[pin.Source]bool{}
	if pins == nil {
		pins = pin.Set{}
	}
	planned := Make(in).Pins
	for _, source := range request.Sources() {
		wanted := request[source]
		switch {
		case wanted == in.Pins[source] || wanted.Revision == planned[source].Revision:
		case in.uses(source) && !in.Sources[source].has(wanted.Revision) && wanted.Revision != in.Sources[source].Name:
			refused = append(refused, source)
		default:
			pins[source], chosen[source] = wanted, true
		}
	}
	return pins, chosen, refused
}

func (in Input) uses(source pin.Source) bool {
	return slices.ContainsFunc(in.Uses, func(use podspec.Use) bool { return use.Source == source })
}

func (s Source) has(revision string) bool {
	return slices.ContainsFunc(s.Revisions, func(r Revision) bool { return r.Name == revision })
}

// Rollback is the origin of a hold: the indexes of the holders between which the workload was rolled back (rule 21.3). They are
// -1 if no holder shows it any more.
type Rollback struct{ From, To int }

// FindRollback finds the newest holder that has the revision which the source is held from, and the oldest holder that was rolled
// out after it with the pin that the template has.
func FindRollback(holders []Holder, source pin.Source, from pin.Pin, on pin.Pin) Rollback {
	found := Rollback{-1, -1}
	for i, holder := range holders {
		if holder.Pins[source].Revision == from.Revision && (found.From < 0 || holder.Order > holders[found.From].Order) {
			found.From = i
		}
	}
	if found.From < 0 {
		return found
	}
	for i, holder := range holders {
		if holder.Pins[source] == on && holder.Order > holders[found.From].Order && (found.To < 0 || holder.Order < holders[found.To].Order) {
			found.To = i
		}
	}
	return found
}

// EndsHold reports whether a deploy ends a hold (rule 21.3): it changes a field of the code that the rollback had changed. from
// and to are the code of the rollback's holders, before and after that of the template.
func EndsHold(from, to, before, after podspec.Code) bool {
	undone := from.Differences(to)
	return slices.ContainsFunc(after.Differences(before), func(field string) bool { return slices.Contains(undone, field) })
}
