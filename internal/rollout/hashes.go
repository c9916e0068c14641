package rollout

import (
	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
)

// The content of a Secret, or of an object that confrev.io/restart-on names, is hashed with the key of the namespace (rule 22). The hashes on
// templates, on holders and in notes may be from before there was a key, or may have been made with a key that is lost.

// absent stands for the hash of an object that does not exist.
const absent = "absent"

// derive completes the inputs of the plans with what follows from everything that was read: which hashes the workload starts from.
func (seen *observed) derive() {
	if _, err := pin.Parse(seen.notes.pins); err != nil && len(seen.pins.Uses) > 0 {
		seen.warn(notice.MalformedPins, pin.Source{}, "annotation %s of the pod template was malformed, so it is written again: %v", keys.Pins, err)
	}
	if _, err := pin.ParseHashes(seen.notes.templateHashes); err != nil && len(seen.hashes.Uses) > 0 {
		seen.warn(notice.MalformedPins, pin.Source{}, "annotation %s of the pod template is malformed, so it counts as none: %v", keys.Hashes, err)
	}
	for _, use := range seen.pins.Uses {
		// The note of a hold counts for what was rolled back when its revision is deleted (rule 4).
		note, source := seen.pins.Held[use.Source], seen.sources[use.Source]
		if note.On == seen.pins.Pins[use.Source] && isLost(note.Keys, source.Scheme) && !source.Exists(note.From.Revision) {
			seen.warnKeyLost(use.Source)
		}
	}
	for _, use := range seen.hashes.Uses {
		if p, ok := seen.workloadHashes[use.Source]; ok && seen.hashes.Pins[use.Source] == (pin.Pin{}) {
			seen.startFrom(use.Source, p)
		}
		if now, ok := seen.contents[use.Source]; ok {
			seen.deriveHash(use, now)
		}
	}
}

// startFrom makes a hash count that is only noted on the workload.
func (seen *observed) startFrom(object pin.Source, p pin.Pin) {
	seen.optInHashes[object], seen.hashes.Pins[object] = p, p
}

// deriveHash compares the content of a source or other object with the hash that was written for it. If the workload has just begun to
// follow the object, its present content is noted: opting in is not a reason to restart, unless the pods read a frozen revision.
// The same applies to a template that lost its hash, such as by a rollback to before it had one: its pods start again anyway.
// An object that does not exist is noted too, so that its appearance is a change (rule 6), unless pods could not start without it.
func (seen *observed) deriveHash(use podspec.Use, now contents) {
	source := now.Source
	if source.Scheme != "" {
		source.Revisions = []plan.Revision{{Name: now.plain}}
	}
	if noted := seen.workloadHashes[use.Source]; source.Rotates && noted.Number > seen.hashes.Pins[use.Source].Number {
		// An earlier template was restored, and its pods have read the source as it was then.
		seen.startFrom(use.Source, noted)
	}
	before, follows := seen.hashes.Pins[use.Source]
	if follows && source.Present && isLost(before.Revision, source.Scheme) {
		if seen.occasion != plan.Edit {
			return
		}
		before = seen.rebase(use.Source, before, source)
	}
	seen.hashes.Sources[use.Source] = source
	_, pinned := seen.pins.Pins[use.Source]
	frozen := pinned && !seen.config.Mode.Pins
	awaited := before.Revision == absent && source.Present && use.Required
	if awaited || !follows && !frozen {
		before = seen.firstHash(use, source)
		seen.startFrom(use.Source, before)
	}
	if before.Revision == absent && !source.Present {
		// The object has never existed, so nothing is missing.
		delete(seen.hashes.Pins, use.Source)
	}
}

// rebase returns the hash that counts instead of one whose key is lost: the one that is noted on the workload or, if that is lost too, that
// of the object's present content. A change that was made together with the loss cannot be recognized, so nothing rolls out.
func (seen *observed) rebase(object pin.Source, before pin.Pin, source plan.Source) pin.Pin {
	now, ok := seen.workloadHashes[object]
	if !ok || isLost(now.Revision, source.Scheme) {
		now = pin.Pin{Revision: source.Name, Number: before.Number}
		seen.warnKeyLost(object)
	}
	seen.startFrom(object, now)
	return now
}

// isLost reports whether a hash was made with another key than the present one.
func isLost(hash, scheme string) bool {
	stated := content.SchemeOf(hash)
	return scheme != "" && stated != "" && stated != scheme
}

func (seen *observed) warnKeyLost(object pin.Source) {
	seen.warn(notice.KeyLost, pin.Source{}, "the key with which %s was hashed is lost (secret/%s was deleted or replaced), so it is not "+
		"known whether it has changed since: nothing rolls out, and it counts as unchanged from now on", object, keys.KeySecret)
}

func (seen *observed) firstHash(use podspec.Use, source plan.Source) pin.Pin {
	switch {
	case !source.Present:
		return pin.Pin{Revision: absent, Number: 1}
	case !source.Rotates:
		return pin.Pin{Revision: source.Name, Number: 1}
	}
	// Pods read the present content of a source that rotates. If it has changed since the template was pinned to a revision of it, that
	// change counts.
	if before, changed := seen.leftBehind(use); changed {
		return before
	}
	in := seen.hashes
	in.Uses, in.Sources = []podspec.Use{use}, map[pin.Source]plan.Source{use.Source: source}
	return plan.Make(in).Decisions[0].Current
}

// leftBehind returns the hash of the revision that the template is pinned to, where the pin would move now if the source did not
// rotate. A workload that was rolled back has seen the present content.
func (seen *observed) leftBehind(use podspec.Use) (pin.Pin, bool) {
	on, pinned := seen.pins.Pins[use.Source]
	key, source := seen.sources[use.Source].Key, seen.sources[use.Source].Source
	if !pinned {
		return pin.Pin{}, false
	}
	in := seen.pins
	in.Uses, in.Sources, in.Occasion, in.Gates = []podspec.Use{use}, map[pin.Source]plan.Source{use.Source: source}, plan.Edit, nil
	if plan.Make(in).Decisions[0].Verdict != plan.Advanced {
		return pin.Pin{}, false
	}
	for _, revision := range source.Revisions {
		if revision.Name == on.Revision && revision.Digests != nil {
			return pin.Pin{Revision: key.Sum(use.Source, revision.Digests.Sum(use.All, use.Keys)), Number: 1}, true
		}
	}
	// The name of a revision is never equal to a hash.
	return pin.Pin{Revision: on.Revision, Number: 1}, true
}
