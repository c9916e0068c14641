//go:build chaos

package chaos

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"confrev.io/confrev/internal/keys"
)

// checkHolds complains of a workload that gets again what it was rolled back from (invariant 5).
func (p *play) checkHolds(entries []entry) (wrong []string, holds int) {
	for _, w := range entries {
		if !isWorkload(w.ref) || w.event != watch.Added {
			continue
		}
		var versions []entry
		for _, e := range entries {
			if e.uid == w.uid && e.event != watch.Deleted {
				versions = append(versions, e)
			}
		}
		for i := 1; i < len(versions); i++ {
			step, byUser := p.byUser(versions[i].version)
			if !byUser || step >= len(p.history) || p.history[step].verb != "undo" || restarts(versions[i-1]) || restarts(versions[i]) {
				continue
			}
			for _, use := range cast[w.ref] {
				complaint, held := p.checkHold(entries, versions, i, use)
				if holds += held; complaint != "" {
					wrong = append(wrong, complaint)
				}
			}
		}
	}
	return wrong, holds
}

// restarts reports whether a workload is in the mode in which it has no pins.
func restarts(e entry) bool { return e.obj.GetAnnotations()[keys.Mode] == "restart" }

// pinIn returns the revision that a version of a workload has of a source.
func pinIn(e entry, source ref) string {
	pins, _ := parsePins(pinsText(templateOf(e.obj)))
	return pins[string(source)]
}

// checkHold checks one undo, which made versions[i] of a workload, for one source. held is 1 if the undo held it.
func (p *play) checkHold(entries, versions []entry, i int, u use) (complaint string, held int) {
	undone, on := pinIn(versions[i-1], u.source), pinIn(versions[i], u.source)
	if undone == "" || on == "" || undone == on {
		return "", 0
	}
	// Since when the workload had what was undone: if the source changed since then, it is about to get other content anyway.
	first := i - 1
	for first > 0 && pinIn(versions[first-1], u.source) == undone {
		first--
	}
	// Only what was rolled out can be told from what never ran. A source that changed since its content was copied does not count.
	if !rolledOut(entries, versions[i], pinsText(templateOf(versions[i-1].obj))) || !p.isCurrent(entries, versions[i].version, u, undone) {
		return "", 0
	}
	until := p.allowedAt(entries, versions[first].version, versions[i], u)
	if until <= versions[i].version {
		return "", 0
	}
	content := p.contentOf(entries, undone, u)
	for _, later := range versions[i+1:] {
		if later.version >= until {
			break
		}
		pinned := pinIn(later, u.source)
		if pinned == undone || pinned != on && pinned != "" && p.contentOf(entries, pinned, u) == content {
			return fmt.Sprintf("%s was rolled back from %s=%s at %d, and got %s again at %d", later.ref, u.source, undone, versions[i].version, pinned, later.version), 1
		}
	}
	return "", 1
}

// rolledOut reports whether a holder with these pins appeared before a version of a workload.
func rolledOut(entries []entry, before entry, pins string) bool {
	return slices.ContainsFunc(entries, func(e entry) bool {
		if !slices.Contains(holderKinds, e.ref.kind()) || e.version > before.version || pinsText(templateOf(e.obj)) != pins {
			return false
		}
		owner := metav1.GetControllerOf(e.obj)
		return owner != nil && owner.UID == before.uid
	})
}

// contentOf returns what a workload reads of a revision, as text.
func (p *play) contentOf(entries []entry, revision string, u use) string {
	for _, e := range entries {
		if e.ref == ref(u.source.kind()+"/"+revision) {
			return contentIn(e, u)
		}
	}
	return "unknown " + revision
}

func contentIn(e entry, u use) string {
	data, _ := e.obj.Object["data"].(map[string]any)
	var used any = data
	if u.key != "" {
		used = data[u.key]
	}
	text, err := json.Marshal(used)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// isCurrent reports whether a source has the content of a revision at some version, and has had it since that was rolled out.
func (p *play) isCurrent(entries []entry, version int64, u use, revision string) bool {
	var now string
	for _, e := range entries {
		if e.ref == u.source && e.version < version {
			if now = contentIn(e, u); e.event == watch.Deleted {
				now = ""
			}
		}
	}
	return now == p.contentOf(entries, revision, u)
}

// ending are the steps with a workload that may end its hold, or let confrev forget what was undone.
var ending = []string{"create", "delete", "orphan", "deploy", "undo", "track", "mode", "injection", "nonsense", "prune", "limit"}

// allowedAt returns the version from which on a workload that was rolled back may get again what was undone: the source changed in what
// the workload uses, or someone did something with the workload. What was rolled out is known by its holders, so pruning ends it too.
func (p *play) allowedAt(entries []entry, since int64, undo entry, u use) int64 {
	until := int64(1) << 62
	for _, version := range dataChanged(entries, u) {
		if version > since {
			until = min(until, version)
		}
	}
	for _, e := range entries {
		if e.version <= undo.version {
			continue
		}
		step, ok := p.byUser(e.version)
		if e.uid == undo.uid && ok && (step >= len(p.history) || slices.Contains(ending, p.history[step].verb)) {
			until = min(until, e.version)
		}
		// Someone deleted a holder.
		if e.event == watch.Deleted && slices.Contains(holderKinds, e.ref.kind()) && p.pruned(undo.ref) {
			until = min(until, e.version)
		}
	}
	return until
}

// pruned reports whether someone prunes the history of a workload by hand.
func (p *play) pruned(w ref) bool {
	return slices.ContainsFunc(p.history, func(s step) bool { return s.on == w && (s.verb == "prune" || s.verb == "limit") })
}
