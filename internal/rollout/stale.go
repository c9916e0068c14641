package rollout

import (
	"context"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
)

// unfollowed returns how the sources stand that a template refers to and that are not chosen to be pinned (rule 21.6).
func (r *Engine) unfollowed(ctx context.Context, seen *observed, uses []podspec.Use, traits map[pin.Source]optin.Traits) (map[pin.Source]plan.Standing, error) {
	standings := map[pin.Source]plan.Standing{}
	for _, use := range uses {
		if !slices.ContainsFunc(seen.pins.Uses, func(followed podspec.Use) bool { return followed.Source == use.Source }) {
			standings[use.Source] = r.standing(seen, use.Source, traits[use.Source])
		}
	}
	for source, standing := range standings {
		p, pinned := seen.request[source]
		if !pinned || standing != plan.ReadLive {
			continue
		}
		appeared, err := r.Store.OfAbsence(ctx, revision.Ref{Kind: source.Kind, Namespace: seen.namespace, Name: p.Revision})
		if err != nil {
			return nil, err
		}
		if appeared {
			standings[source] = plan.Appeared
		}
	}
	return standings, nil
}

// standing returns how a source stands whose metadata was looked up.
func (r *Engine) standing(seen *observed, source pin.Source, about optin.Traits) plan.Standing {
	switch {
	case !r.Options.Enabled(source.Kind) || seen.metas[source] == nil:
		return plan.Unasked
	case about.Policy.ReadsLive || about.Never != "":
		return plan.ReadLive
	}
	return plan.Untracked
}

// dropped returns the sources that a request has no pin of, and of which confrev would drop the pin from an undo to one of the
// templates: it may have done so already when the API server asks again. reader reads what the plan reads anyway.
func (r *Engine) dropped(ctx context.Context, reader client.Reader, obj client.Object, before, request plan.Template, templates []plan.Template) (map[pin.Source]bool, error) {
	templates = slices.DeleteFunc(slices.Clone(templates), func(t plan.Template) bool { return t.Code != request.Code })
	if len(templates) == 0 {
		// No code that ran: it is no undo, whatever was dropped.
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
	seen, dropped := newObserved(obj.GetNamespace(), reader), map[pin.Source]bool{}
	seen.eager = true
	for source := range candidates {
		standing := plan.Standing(0)
		if slices.ContainsFunc(uses, func(use podspec.Use) bool { return use.Source == source }) {
			about, _, err := r.describe(ctx, &seen, source)
			if err != nil {
				return nil, err
			}
			if err := r.classify(ctx, &seen, source, &about); err != nil {
				return nil, err
			}
			standing = r.standing(&seen, source, about)
		}
		dropped[source] = standing.Stale(true)
	}
	return dropped, nil
}

// mayDrop reports whether a workload that follows nothing may still have pins that a request drops: the last source that it
// tracked is to be read live, say.
func (seen observed) mayDrop() bool {
	return seen.asked.Track.Enabled() && seen.asked.Mode.Pins && !seen.unbounded && len(seen.pins.Pins) > 0
}

// drops reports whether pins go with a request that changes the template anyway, whatever else the plan changes (rule 21.6).
// A template that has lost its pins and gets them back does not change.
func (r *Engine) drops(obj, old client.Object, seen observed, want intent) bool {
	if maps.Equal(seen.pins.Pins, want.pins.Pins) {
		return false
	}
	return want.changes() || old == nil || r.deploys(obj, old) || !maps.Equal(seen.pins.Pins, seen.before)
}
