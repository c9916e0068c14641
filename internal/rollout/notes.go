package rollout

import (
	"cmp"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
)

// notes are what confrev wrote: on the template pins and stamped hashes, on the workload noted hashes and what it is held
// from, by pin and by hash.
type notes struct{ pins, stamped, noted, held, heldHashes string }

// notesOf returns the notes of a workload. A request that takes some of them away altogether, as kubectl replace does, does
// not mean to: they are those of the old object then.
func (r *Engine) notesOf(obj, old client.Object, seen *observed) notes {
	template, annotations := seen.template.Annotations, obj.GetAnnotations()
	oldTemplate, oldAnnotations := map[string]string{}, map[string]string{}
	if old != nil {
		oldAnnotations = old.GetAnnotations()
		if before, err := r.Kind.Template(old); err == nil {
			oldTemplate = before.Annotations
		}
	}
	kept := func(now, before map[string]string, key string) string { return cmp.Or(now[key], before[key]) }
	return notes{
		pins: kept(template, oldTemplate, keys.Pins), stamped: kept(template, oldTemplate, keys.Hashes),
		noted: kept(annotations, oldAnnotations, keys.Hashes), held: kept(annotations, oldAnnotations, keys.Held),
		heldHashes: kept(annotations, oldAnnotations, keys.HeldHashes),
	}
}

// readNotes reads what confrev wrote before.
func (seen *observed) readNotes() {
	var err error
	n := seen.notes
	if seen.pins.Pins, err = pin.Parse(n.pins); err != nil && len(seen.pins.Uses) > 0 {
		seen.say(notice.MalformedPins, "annotation %s of the pod template was malformed, so it is written again: %v", keys.Pins, err)
	}
	if seen.hashes.Pins, err = pin.ParseHashes(n.stamped); err != nil && len(seen.hashes.Uses) > 0 {
		seen.say(notice.MalformedPins, "annotation %s of the pod template is malformed, so it counts as none: %v", keys.Hashes, err)
		seen.hashes.Pins = pin.Set{}
	}
	// A note that cannot be read is no note: the holders show a hold too.
	seen.pins.Held, _ = pin.ParseNotes(n.held)
	seen.hashes.Held, _ = pin.ParseNotes(n.heldHashes)
	if len(seen.hashes.Uses) == 0 {
		return
	}
	seen.noted, _ = pin.ParseHashes(n.noted)
	for _, use := range seen.hashes.Uses {
		if p, ok := seen.noted[use.Source]; ok && seen.hashes.Pins[use.Source] == (pin.Pin{}) {
			seen.baseline[use.Source] = p
			seen.hashes.Pins[use.Source] = p
		}
	}
}
