package rollout

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
)

func (r *Engine) brings(obj client.Object, before pin.Set) plan.Template {
	return plan.Template{Code: r.code(obj, before).Digest(), Pins: r.pinsOf(obj)}
}

// undoes returns the holders to which a request may go back, none if it is no undo, and with which pins (rule 21.2). reader reads the metadata
// of sources.
func (r *Engine) undoes(ctx context.Context, reader client.Reader, obj, old client.Object) (pins pin.Set, to []client.Object, err error) {
	if r.Kind.Fixed {
		return nil, nil, nil
	}
	referring, err := index.Referring(ctx, r.Client, r.Kinds, r.Kind, obj)
	if err != nil {
		return nil, nil, err
	}
	found, err := r.holders(ctx, obj, referring)
	if err != nil {
		return nil, nil, err
	}
	var templates []plan.Template
	var shown []client.Object
	for _, holder := range found {
		facts := r.Kind.Holder.Facts(holder)
		if pins, err := pin.Parse(facts.Pins); err == nil {
			templates = append(templates, plan.Template{Code: facts.Code, Pins: pins})
			shown = append(shown, holder)
		}
	}
	before, request := r.brings(old, nil), r.brings(obj, r.pinsOf(old))
	dropped, err := r.dropped(ctx, reader, obj, before, request, templates)
	if err != nil {
		return nil, nil, err
	}
	pins, indexes := plan.Undo(before, request, templates, dropped)
	for _, i := range indexes {
		to = append(to, shown[i])
	}
	return pins, to, nil
}

// withSettings returns the object of a request that goes back to one of some holders, with the settings that count (rule 21.5). A holder that cannot be
// read may have all that the request has. The cache has no annotations of holders.
func (r *Engine) withSettings(ctx context.Context, obj, old client.Object, holders []client.Object) client.Object {
	var restored []map[string]string
	for _, holder := range holders {
		if !r.Kind.Restores || optin.SameSettings(obj, old) {
			break
		}
		live := r.Kind.Holder.New()
		if err := r.Whole.Get(ctx, client.ObjectKeyFromObject(holder), live); err != nil {
			live = obj
		}
		restored = append(restored, live.GetAnnotations())
	}
	changed := obj.DeepCopyObject().(client.Object)
	changed.SetAnnotations(optin.WithSettings(obj, old, restored...))
	return changed
}

// dropped returns the sources that a request has no pin for, and whose pin confrev would remove in an undo to one of the templates: it may
// have done so already if the API server calls the webhook again. reader reads what the plan reads anyway.
func (r *Engine) dropped(ctx context.Context, reader client.Reader, obj client.Object, before, request plan.Template, templates []plan.Template) (map[pin.Source]bool, error) {
	templates = slices.DeleteFunc(slices.Clone(templates), func(t plan.Template) bool { return t.Code != request.Code })
	if len(templates) == 0 {
		// The request has code that never ran, so it is not an undo, whatever was dropped.
		return nil, nil
	}
	uses, err := r.Kind.Uses(obj, before.Pins)
	if err != nil {
		return nil, nil //nolint:nilerr // What has no template refers to nothing, and undoes nothing.
	}
	candidates := maps.Clone(before.Pins)
	if candidates == nil {
		candidates = pin.Set{}
	}
	for _, template := range templates {
		maps.Copy(candidates, template.Pins)
	}
	maps.DeleteFunc(candidates, func(source pin.Source, _ pin.Pin) bool { return request.Pins[source] != pin.Pin{} })
	seen, dropped := newObserved(obj.GetNamespace(), view{reader: reader}), map[pin.Source]bool{}
	for source := range candidates {
		standing := plan.Standing(0)
		if slices.ContainsFunc(uses, func(use podspec.Use) bool { return use.Source == source }) {
			about, _, err := r.describe(ctx, seen, source)
			if err != nil {
				return nil, err
			}
			if about.Policy, err = r.policy(ctx, seen, source, about.Policy, true); err != nil {
				return nil, err
			}
			standing = r.standing(seen, source, about)
		}
		dropped[source] = standing.Stale(true)
	}
	return dropped, nil
}

// vouch corrects what is known about the revisions that a request pins: one may have been created or deleted just before the request, and
// metadata alone proves nothing (rules 9 and 20).
func (r *Engine) vouch(ctx context.Context, seen *observed) error {
	for source, p := range seen.request {
		known, observed := seen.pins.Sources[source]
		if !observed || p == seen.before[source] || p.Revision == known.Name {
			continue
		}
		_, held, err := r.Store.Verify(ctx, source, revision.Ref{Kind: source.Kind, Namespace: seen.namespace, Name: p.Revision})
		if err != nil && !revision.IsChanged(err) {
			return err
		}
		named := func(made plan.Revision) bool { return made.Name == p.Revision }
		vouched := plan.Revision{Name: p.Revision, Number: p.Number}
		if i := slices.IndexFunc(known.Revisions, named); i >= 0 {
			vouched.Number = known.Revisions[i].Number
		}
		known.Revisions = slices.DeleteFunc(slices.Clone(known.Revisions), named)
		if err == nil {
			vouched.Hash, vouched.Digests = held.Hash, held.Digests
			known.Revisions = append(known.Revisions, vouched)
		}
		seen.pins.Sources[source] = known
	}
	return nil
}

// planFrom determines from which pins to plan for a request, once its sources were looked at (rules 21.1 and 21.2).
func (seen *observed) planFrom(undone pin.Set, isUndo bool) {
	if isUndo {
		seen.pins.Undo = true
		seen.pins.Pins, seen.notes.pins = undone, undone.String()
		return
	}
	in := seen.pins
	in.Pins = seen.before
	pins, chosen, refused := plan.ChosenPins(in, seen.request)
	seen.pins.Pins, seen.pins.Chosen, seen.notes.pins = pins, chosen, pins.String()
	for _, source := range refused {
		counts := "so the pin stays as it was"
		if in.Pins[source] == (pin.Pin{}) {
			counts = "so the pin does not count"
		}
		seen.warn(notice.MalformedPins, source,
			"annotation %s of the pod template pins %s to something that is not a revision of it in this namespace, %s", keys.Pins, source, counts)
	}
}

// mayDrop reports whether a workload that follows nothing may still have pins that a request drops, for example because the last source that
// it tracked got the policy live.
func (seen *observed) mayDrop() bool {
	return seen.config.Track.Enabled() && seen.config.Mode.Pins && !seen.unbounded && len(seen.pins.Pins) > 0
}

// drops reports whether pins are removed in a request because it changes the template anyway, whatever else the plan changes (rule 21.6).
// Restoring pins that the template has lost is not a change.
func (r *Engine) drops(obj, old client.Object, seen *observed, want intent) bool {
	if maps.Equal(seen.pins.Pins, want.pins.Pins) {
		return false
	}
	return want.changes() || old == nil || r.deploys(obj, old) || !maps.Equal(seen.pins.Pins, seen.before)
}

// sayHeld warns a user who changes the code of a workload, or creates one with old pins, that its configuration stays as it is, and says how
// to move on (rule 21.4).
func (r *Engine) sayHeld(obj, old client.Object, seen *observed, want intent) []notice.Notice {
	why := "to which the workload was rolled back"
	if old == nil {
		why = "which its manifest pins"
	} else if len(r.code(obj, seen.earlier...).Differences(r.code(old))) == 0 {
		return nil
	}
	var said []notice.Notice
	for _, d := range want.pins.Decisions {
		if d.Verdict == plan.Held {
			said = append(said, notice.Notice{Reason: notice.Held, Text: fmt.Sprintf(
				"%s stays on revision %s, %s; to continue with its present content: kubectl confrev resume %s/%s %s -n %s",
				d.Source, d.To, why, r.Kind.Resource(), obj.GetName(), d.Source, obj.GetNamespace())})
		}
	}
	return said
}
