package controller

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
)

// Steering is a move of a workload's pins that a person wants: by hand, but written and noted as the controller does.
type Steering struct {
	// After is the plan for the workload as it is to be: what the controller does next, if anything.
	After plan.Plan

	r    *engine
	look Look
	want intent
}

// Steer moves pins and hashes of a workload, each to the To of a decision of the look that was changed by hand. A source
// that is moved away from current is held from then on, whether or not a holder shows that it was on current (rule 4).
func (p *Planner) Steer(look Look, moves ...plan.Decision) Steering {
	s := Steering{r: p.engine(look.Kind), look: look}
	seen := look.seen
	// Nothing but the moves changes: not even what the controller is about to do by itself.
	s.want = intent{
		pins:   plan.Plan{Pins: maps.Clone(seen.pins.Pins)},
		hashes: plan.Plan{Pins: maps.Clone(seen.hashes.Pins), Held: maps.Clone(look.Hashes.Held)},
	}
	after := seen.pins
	after.Pins, after.Held = s.want.pins.Pins, maps.Clone(seen.pins.Held)
	for _, move := range moves {
		if !look.Pinned(move.Source) {
			s.want.hashes.Decisions = append(s.want.hashes.Decisions, move)
			s.want.hashes.Pins[move.Source] = move.To
			delete(s.want.hashes.Held, move.Source)
			continue
		}
		s.want.pins.Decisions = append(s.want.pins.Decisions, move)
		s.want.pins.Pins[move.Source] = move.To
		delete(after.Held, move.Source)
		if move.Current != (pin.Pin{}) {
			after.Held[move.Source] = pin.Note{From: move.Current, On: move.To}
		}
	}
	s.After = plan.Make(after)
	s.want.pins.Held = s.After.Held
	s.want.injectAgain(seen)
	return s
}

// Pinned tells whether a source is pinned, rather than only a reason to restart.
func (l Look) Pinned(source pin.Source) bool {
	return slices.ContainsFunc(l.Pins.Decisions, func(d plan.Decision) bool { return d.Source == source })
}

// Ready makes sure of every revision that is about to be pinned: that of the present content is made if it is missing, with
// the rights of who asks (rule 9).
func (s *Steering) Ready(ctx context.Context) error {
	owner := s.r.owner(s.look.Workload)
	for i := range s.want.pins.Decisions {
		d := &s.want.pins.Decisions[i]
		source := revision.Ref{Kind: d.Source.Kind, Namespace: s.look.seen.namespace, Name: d.Source.Name}
		if d.To == d.Current {
			made, _, err := s.r.store.Ensure(ctx, source, s.look.Sources[d.Source], d.To.Number, owner)
			if err != nil {
				return err
			}
			s.want.pins.Repin(d, made)
			continue
		}
		source.Name = d.To.Revision
		if err := s.r.store.Keep(ctx, d.Source, source, owner, s.look.shows(d.Source, d.To.Revision)); err != nil {
			return err
		}
	}
	s.want.injectAgain(s.look.seen)
	return nil
}

// Yielded are the refusals of what was left to the controller: to note on revisions that they are used.
func (p *Planner) Yielded() []error { return p.yields.refusals }

// shows tells whether a holder of the workload pins a revision.
func (l Look) shows(source pin.Source, revision string) bool {
	return slices.ContainsFunc(l.RolledOut, func(h plan.Holder) bool { return h.Pins[source].Revision == revision })
}

// Send writes the move, unless the workload has changed since it was looked at (revision.IsChanged), and gives what the API
// server made of it.
func (s *Steering) Send(ctx context.Context, options ...client.PatchOption) (client.Object, error) {
	obj := s.look.Workload.DeepCopyObject().(client.Object)
	pointless, err := s.r.leaveToAdmission(ctx, obj, s.look.seen, &s.want, options...)
	if err == nil && pointless {
		err = errors.New(s.r.prunes().Text)
	}
	if err != nil {
		return nil, err
	}
	return obj, s.r.send(ctx, obj, s.r.patch(obj, s.look.seen, s.want), options...)
}

// Would gives what the workload would be after the move, without asking the API server.
func (s *Steering) Would() (client.Object, error) {
	ops, err := json.Marshal(s.r.patch(s.look.Workload, s.look.seen, s.want))
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(ops)
	if err != nil {
		return nil, err
	}
	document, err := json.Marshal(s.look.Workload)
	if err != nil {
		return nil, err
	}
	if document, err = patch.Apply(document); err != nil {
		return nil, err
	}
	would := s.look.Kind.New()
	return would, json.Unmarshal(document, would)
}
