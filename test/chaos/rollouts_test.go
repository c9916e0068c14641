//go:build chaos

package chaos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// change is a change to the template of a workload, or a reason for one.
type change struct {
	version int64
	// cause is how many rollouts confrev may make because of it, and byConfrev is true when it is one.
	cause     int
	byConfrev bool
	// template is what the workload has from then on, written the annotations among it: pins and hashes.
	template, written string
}

// templates returns the versions of a workload's template, the first one being that of its creation.
func (p *play) templates(entries []entry, uid types.UID) (all []change) {
	for _, e := range entries {
		if e.uid != uid || e.event == watch.Deleted {
			continue
		}
		template := templateOf(e.obj)
		text, err := json.Marshal(template)
		p.Must(err)
		annotations, _, err := unstructured.NestedFieldNoCopy(template, "metadata", "annotations")
		p.Must(err)
		if len(all) > 0 && all[len(all)-1].template == string(text) {
			continue
		}
		_, byUser := p.byUser(e.version)
		all = append(all, change{version: e.version, template: string(text), written: fmt.Sprint(annotations), byConfrev: !byUser && len(all) > 0})
	}
	return all
}

// dataChanged returns the versions at which what a workload uses of a source changed.
func dataChanged(entries []entry, u use) (versions []int64) {
	var before any
	for _, e := range entries {
		if e.ref != u.source {
			continue
		}
		now, _ := e.obj.Object["data"].(map[string]any)
		var used any = now
		if u.key != "" {
			used = now[u.key]
		}
		if e.event == watch.Deleted {
			used = nil
		}
		if !equality.Semantic.DeepEqual(used, before) {
			versions = append(versions, e.version)
		}
		before = used
	}
	return versions
}

// weightOf returns how many rollouts of a workload confrev may make because a user did something with it. If the webhook does not answer,
// what it would have added to the request is one more rollout (rules 2 and 7); with injection template it is two (references.md), and
// an undo may bring back old settings (rule 21). What does not concern the template is no reason.
func weightOf(verb string) int {
	switch verb {
	case "label", "scale", "pause", "restart", "limit":
		return 0
	case "create", "injection":
		return 2
	case "undo":
		return 3
	}
	return 1
}

// causes returns what may make confrev roll a workload out. What users do with the sources counts for all who use them, and ending a
// wait lets happen what has waited.
func (p *play) causes(entries []entry, w entry) (all []change) {
	spreads := false
	for _, s := range p.history {
		spreads = spreads || s.verb == "spread"
	}
	for _, use := range cast[w.ref] {
		for _, version := range dataChanged(entries, use) {
			all = append(all, change{version: version, cause: 1})
			if spreads {
				// A change that fails is undone, and may be taken again when the settings change.
				all = append(all, change{version: version, cause: 2})
			}
		}
	}
	for _, e := range entries {
		step, ok := p.byUser(e.version)
		switch {
		case !ok:
		case e.uid == w.uid && step < len(p.history):
			all = append(all, change{version: e.version, cause: weightOf(p.history[step].verb)})
		case e.uid == w.uid:
			// At the end, a user takes its settings back.
			all = append(all, change{version: e.version, cause: 1})
		case isSource(e.ref):
			all = append(all, change{version: e.version, cause: p.settingCause(step)})
		}
	}
	return all
}

// settingCause returns what a write to a source that says something about changes to it may cause.
func (p *play) settingCause(step int) int {
	if step == len(p.history) || slices.Contains([]string{"unset", "freeze", "advance", "spread"}, p.history[step].verb) {
		return 1
	}
	return 0
}

// most bounds how many rollouts may be due at a time: what changed until then is one rollout. It is more than one for those that the
// webhook missed, first pins of sources that come one by one, a change that is undone, and a decision made just before the last change.
func (p *play) most() int {
	most := 3
	for _, s := range p.history {
		switch s.verb {
		case "injection", "undo", "mode":
			most = max(most, 4)
		case "spread":
			return 6
		}
	}
	return most
}

// checkRollouts complains of rollouts without a reason (invariant 4).
func (p *play) checkRollouts(entries []entry) (wrong []string, rollouts int) {
	for _, w := range entries {
		if !isWorkload(w.ref) || w.event != watch.Added {
			continue
		}
		templates := p.templates(entries, w.uid)
		wrong = append(wrong, p.flapping(w.ref, templates)...)
		all := slices.Concat(templates, p.causes(entries, w))
		// At the same version, what a user wrote comes first.
		slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.version, b.version) })
		due, most := 0, p.most()
		for _, c := range all {
			if c.version < w.version {
				// What there was before it is in its first pins.
				continue
			}
			due = min(due+c.cause, most)
			if !c.byConfrev {
				continue
			}
			rollouts++
			if due--; due < 0 {
				wrong = append(wrong, fmt.Sprintf("%s was rolled out at %d for no reason: %s", w.ref, c.version, c.template))
				due = 0
			}
		}
	}
	return wrong, rollouts
}

// flapping complains when confrev goes back to a template that a workload had before, with no one else doing anything in between.
// A change that fails is undone; then it must not come a second time.
func (p *play) flapping(w ref, all []change) (wrong []string) {
	undoes := slices.ContainsFunc(p.history, func(s step) bool { return s.verb == "spread" })
	back := func(i int) bool {
		return i >= 2 && all[i].byConfrev && all[i-1].byConfrev && all[i].template == all[i-2].template && !p.userBetween(all[i-1].version, all[i].version)
	}
	for i := range all {
		if back(i) && (!undoes || back(i-1)) {
			wrong = append(wrong, fmt.Sprintf("%s flaps: at %d it is back to %s", w, all[i].version, all[i].template))
		}
	}
	return wrong
}

// userBetween reports whether any user wrote anything between two versions.
func (p *play) userBetween(from, to int64) bool {
	p.recorder.mu.Lock()
	defer p.recorder.mu.Unlock()
	for version := range p.own {
		if version > from && version < to {
			return true
		}
	}
	return false
}

// rolledOutSince returns the rollouts by confrev of each workload after a version, except those that only correct a name that the webhook was too late
// to write (references.md, injection).
func (p *play) rolledOutSince(version int64) map[ref][]string {
	entries := p.sorted()
	since := map[ref][]string{}
	for _, w := range entries {
		if !isWorkload(w.ref) || w.event != watch.Added {
			continue
		}
		written := ""
		for _, c := range p.templates(entries, w.uid) {
			if c.byConfrev && c.version > version && c.written != written {
				since[w.ref] = append(since[w.ref], c.template)
			}
			written = c.written
		}
	}
	return since
}
