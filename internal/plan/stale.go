package plan

import "confrev.io/confrev/internal/pin"

// Standing is how a source stands that the template refers to and that the plan does not follow.
type Standing int

// The standings. One that the template does not refer to has none.
const (
	// Untracked: the workload does not ask for it, or may not have it.
	Untracked Standing = iota + 1
	// ReadLive: the source itself says that pods read it as it is: policy live or ignore, or what is never copied (rule 10).
	ReadLive
	// Appeared: it says so, and the template pins its absence, from before it could say so.
	Appeared
	// Unasked: it does not exist or its kind is not enabled, so what it says is not known.
	Unasked
)

// Stale reports whether the pin of a source that the plan does not follow goes when the template changes anyway (rule 21.6). What
// an undo brings back goes only if nothing refers to it, or if the source itself says so.
func (s Standing) Stale(undo bool) bool {
	switch s {
	case Untracked:
		return !undo
	case Unasked:
		return false
	}
	return true
}

// PinsAbsence reports whether the template pins the absence of a source that exists and is to be read live. Its pods would never
// see it, so that pin does not wait for another change (rule 6).
func (in Input) PinsAbsence() bool {
	for source, standing := range in.Unfollowed {
		if standing == Appeared && in.Pins[source] != (pin.Pin{}) {
			return true
		}
	}
	return false
}
