package plan

import "confrev.io/confrev/internal/pin"

// Standing says why the plan does not follow a source that the template refers to.
type Standing int

// The standings. A source that the template does not refer to has the zero Standing.
const (
	// Untracked: the workload does not ask for it, or may not have it.
	Untracked Standing = iota + 1
	// ReadLive: the source's own metadata says that pods read it as it is: policy live or ignore, or it is never copied (rule
	// 10).
	ReadLive
	// Appeared: like ReadLive, but the template pins the source's absence, from before the source existed.
	Appeared
	// Unasked: the source does not exist or its kind is not enabled, so its metadata is not known.
	Unasked
)

// Stale reports whether the pin of a source that the plan does not follow is dropped when the template changes anyway (rule
// 21.6). What an undo brings back is dropped only if nothing refers to it, or if the source's own metadata says so.
func (s Standing) Stale(undo bool) bool {
	switch s {
	case Untracked:
		return !undo
	case Unasked:
		return false
	}
	return true
}

// PinsAbsence reports whether the template pins the absence of a source that exists and should be read live. Its pods would never
// see it, so that pin does not wait for another change (rule 6).
func (in Input) PinsAbsence() bool {
	for source, standing := range in.Unfollowed {
		if standing == Appeared && in.Pins[source] != (pin.Pin{}) {
			return true
		}
	}
	return false
}
