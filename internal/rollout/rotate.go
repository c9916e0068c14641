package rollout

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
)

// lookAndPlan observes a workload and makes the plans. The types of Secrets are read only where the template is to change: what
// rotates by its type and is pinned from before stays so until then.
func (r *Engine) lookAndPlan(ctx context.Context, obj client.Object, v view) (observed, intent, error) {
	seen, err := r.observe(ctx, obj, v)
	want := r.intend(seen)
	if err == nil && len(seen.untyped) > 0 && want.changes() {
		v.eager = true
		seen, err = r.observe(ctx, obj, v)
		want = r.intend(seen)
	}
	return seen, want, err
}

// classify completes what a source says of its policy by what it is: certificates and leased credentials rotate.
func (r *Engine) classify(ctx context.Context, seen *observed, source pin.Source, about *optin.Traits) error {
	meta := seen.metas[source]
	if meta == nil || about.Policy.ReadsLive {
		return nil
	}
	switch r.Options.Rotating.Classify(source, meta) {
	case optin.Rotated:
		about.Policy = optin.PolicyRotate
	case optin.ByType:
		secretType, known := r.Store.KnownType(meta)
		if !known && seen.eager {
			var err error
			if secretType, err = r.Store.ReadType(ctx, meta); err != nil {
				return err
			}
		} else if !known {
			seen.untyped = append(seen.untyped, source)
		}
		if optin.RotatesByType(secretType) {
			about.Policy = optin.PolicyRotate
		}
	case optin.Still:
	}
	return nil
}

// chooseRotating moves those of a selection that rotate out of what is pinned, and notes them.
func (r *Engine) chooseRotating(ctx context.Context, seen *observed, selection *optin.Selection, traits map[pin.Source]optin.Traits) error {
	var pinned []podspec.Use
	for _, use := range selection.Uses {
		about := traits[use.Source]
		if err := r.classify(ctx, seen, use.Source, &about); err != nil {
			return err
		}
		if traits[use.Source] = about; about.Policy.Rotates || seen.rotated(use.Source) {
			selection.Rotating = append(selection.Rotating, use)
			continue
		}
		pinned = append(pinned, use)
	}
	selection.Uses = pinned
	for _, use := range selection.Rotating {
		seen.rotating[use.Source] = true
	}
	slices.SortFunc(selection.Rotating, func(a, b podspec.Use) int { return a.Compare(b.Source) })
	return nil
}

// rotated reports whether a source that is not there was followed as one that rotates: nothing else is not pinned and has a hash.
// It will be one again when it is back, and what it was must not be forgotten until then.
func (seen *observed) rotated(source pin.Source) bool {
	if meta, asked := seen.metas[source]; !asked || meta != nil || seen.restartsOn(source) {
		return false
	}
	pins, _ := pin.Parse(seen.notes.pins)
	stamped, _ := pin.ParseHashes(seen.notes.stamped)
	noted, _ := pin.ParseHashes(seen.notes.noted)
	return pins[source] == pin.Pin{} && (stamped[source] != pin.Pin{} || noted[source] != pin.Pin{})
}

// rotates reports whether a source that is followed by its hash rotates. Its data was read for the hash, so its type is known.
func (r *Engine) rotates(ctx context.Context, seen *observed, source pin.Source) (bool, error) {
	if seen.rotating[source] {
		return true, nil
	}
	about, _, err := r.describe(ctx, seen, source)
	if err != nil || seen.metas[source] == nil {
		return false, err
	}
	eager := *seen
	eager.eager = true
	err = r.classify(ctx, &eager, source, &about)
	seen.rotating[source] = about.Policy.Rotates
	return seen.rotating[source], err
}

// readAhead takes the hash that the workload notes for what its pods read, where it is newer than that of the template: an
// earlier template was brought back, and its pods read what the source had by then.
func (seen *observed) readAhead(source pin.Source) {
	if noted := seen.noted[source]; noted.Number > seen.hashes.Pins[source].Number {
		seen.baseline[source], seen.hashes.Pins[source] = noted, noted
	}
}

// firstOfRotating returns the hash of what the pods read of a source that rotates, when it begins to be followed: what it has
// now, unless it changed since the template was pinned to a revision of it. That change counts.
func (seen *observed) firstOfRotating(use podspec.Use, source plan.Source) pin.Pin {
	if before, is := seen.leftBehind(use); is {
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
	key, observed := seen.sources[use.Source].Key, seen.sources[use.Source].Source
	if !pinned {
		return pin.Pin{}, false
	}
	in := seen.pins
	in.Uses, in.Sources, in.Stay = []podspec.Use{use}, map[pin.Source]plan.Source{use.Source: observed}, false
	if plan.Make(in).Decisions[0].Verdict != plan.Advanced {
		return pin.Pin{}, false
	}
	for _, revision := range observed.Revisions {
		if revision.Name == on.Revision && revision.Digests != nil {
			return pin.Pin{Revision: key.Sum(use.Source, revision.Digests.Sum(use.All, use.Keys)), Number: 1}, true
		}
	}
	// No hash is like the name of a revision.
	return pin.Pin{Revision: on.Revision, Number: 1}, true
}

// RotatesAsKnown reports whether a source rotates, as far as that is known without reading it.
func (r *Engine) RotatesAsKnown(source pin.Source, meta *metav1.PartialObjectMetadata) bool {
	secretType, _ := r.Store.KnownType(meta)
	class := r.Options.Rotating.Classify(source, meta)
	return class == optin.Rotated || class == optin.ByType && optin.RotatesByType(secretType)
}

// restartInstead leaves the template as it is where nothing but what rotates has changed and the workload asks for its pods to be
// restarted: the new hashes are noted, and a time tells Argo Rollouts which pods are too old. It evicts them one after the other, so
// there must be two.
func (r *Engine) restartInstead(obj client.Object, seen observed, want *intent) {
	if !seen.asked.RestartAt || !r.Kind.CanRestart(obj) || !want.hashes.Changed() || want.pins.Changed() || want.release || len(want.inject) > 0 {
		return
	}
	for _, d := range want.hashes.Decisions {
		if d.To != d.From && (!seen.rotating[d.Source] || d.From == pin.Pin{}) {
			return
		}
	}
	for i := range want.hashes.Decisions {
		if d := &want.hashes.Decisions[i]; d.To != d.From {
			d.Noted = d.To
			want.hashes.Repin(d, d.From)
		}
	}
	want.restart = true
}
