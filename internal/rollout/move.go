package rollout

import (
	"context"
	"errors"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
)

// Move is a change to a workload's pins that a user asks for. It is written and noted as the controller does it.
type Move struct {
	// After is the plan for the workload after the move: what the controller does next, if anything.
	After plan.Plan

	r    *Engine
	look Assessment
	want intent
}

// Move plans to move pins and hashes of a workload, each to the To of a decision of the assessment that the caller has changed. A source
// that is moved away from current is held from then on, whether or not a holder shows that it was on current (rule 4).
func (r *Engine) Move(l Assessment, moves ...plan.Decision) Move { return r.MoveBack(l, nil, moves...) }

// MoveBack does the same because of stops: the number of the stop, by source. When a person ends the stop, the hold ends too (rule 40).
func (r *Engine) MoveBack(look Assessment, stops map[pin.Source]int, moves ...plan.Decision) Move {
	s := Move{r: r, look: look}
	seen := look.seen
	// Only the moves are written, not what the controller is about to do by itself.
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
		// A source that is being moved is neither held nor in sync before the move.
		if move.Verdict = plan.Held; move.To == move.Current {
			move.Verdict = plan.Advanced
		}
		s.want.pins.Decisions = append(s.want.pins.Decisions, move)
		s.want.pins.Pins[move.Source] = move.To
		delete(after.Held, move.Source)
		if move.Current != (pin.Pin{}) {
			after.Held[move.Source] = plan.NoteOfStop(seen.pins.Holders, move, stops[move.Source])
		}
	}
	s.After = plan.Make(after)
	s.want.pins.Held = s.After.Held
	s.want.injectAgain(seen)
	return s
}

// Pinned reports whether a source is pinned, rather than only a reason to restart.
func (l Assessment) Pinned(source pin.Source) bool {
	return slices.ContainsFunc(l.Pins.Decisions, func(d plan.Decision) bool { return d.Source == source })
}

// Prepare makes sure that every revision exists which is about to be pinned. It creates that of the present content if it is missing, with
// the rights of the user (rule 9).
func (s *Move) Prepare(ctx context.Context) error {
	owner, seen := s.r.owner(s.look.Workload), s.look.seen
	isOld := func(d plan.Decision) bool { return d.To != d.Current }
	isShown := func(d plan.Decision) bool { return s.look.shows(d.Source, d.To.Revision) }
	if err := s.r.keep(ctx, owner, seen, s.want.pins, isOld, isShown); err != nil {
		return err
	}
	_, refused, err := s.r.ensure(ctx, s.look.Workload, owner, seen, &s.want.pins, isAny)
	if err != nil {
		return err
	}
	for _, n := range refused {
		return &notice.TerminalError{Notice: n}
	}
	s.want.injectAgain(seen)
	return nil
}

func (l Assessment) shows(source pin.Source, revision string) bool {
	return slices.ContainsFunc(l.RolledOut, func(h plan.Holder) bool { return h.Pins[source].Revision == revision })
}

// Write writes the move, unless the workload has changed since it was looked at (revision.IsChanged), and returns what the API
// server made of it.
func (s *Move) Write(ctx context.Context, options ...client.PatchOption) (client.Object, error) {
	obj := s.look.Workload.DeepCopyObject().(client.Object)
	sent, kept, err := s.r.write(ctx, obj, s.look.seen, &s.want, options...)
	if err == nil && !sent && !kept {
		err = errors.New(s.r.NotKept().Text)
	}
	if err != nil {
		return nil, err
	}
	return obj, nil
}

// Preview returns what the workload would be after the move, without asking the API server.
func (s *Move) Preview() (client.Object, error) {
	return s.r.Apply(s.look.Workload, s.r.patch(s.look.Workload, s.look.seen, s.want))
}
