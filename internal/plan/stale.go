package plan

// Standing is how a source stands that the template refers to and that the plan does not follow.
type Standing int

// The standings. One that the template does not refer to has none.
const (
	// Untracked: the workload does not ask for it, or may not have it.
	Untracked Standing = iota + 1
	// ReadLive: the source itself says that pods read it as it is: policy live or ignore, or what is never copied (rule 10).
	ReadLive
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
