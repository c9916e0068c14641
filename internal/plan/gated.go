package plan

import (
	"cmp"
	"slices"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/waiting"
)

// gated is an input of which some sources wait, whatever the plan would do with them.
type gated struct {
	Input
	waits map[pin.Source]waiting.Wait
}

// Both returns the plans for two inputs of the same workload: one for its pins, one for its hashes. What moves in either of them waits
// together, so that it is one rollout (rule 34).
func Both(pins, hashes Input) (p, h Plan) {
	all := []gated{pins.waitForActs(), hashes.waitForActs()}
	p, h = all[0].plan(), all[1].plan()
	moves := [][]pin.Source{all[0].moves(p), all[1].moves(h)}
	wait := waiting.ForTime(slices.Concat(all[0].gatesOf(moves[0]), all[1].gatesOf(moves[1])), pins.Deploys, pins.Now)
	if wait == (waiting.Wait{}) {
		wait = waiting.ForTurn(all[0].turnsOf(moves[0]), pins.Deploys)
	}
	if wait == (waiting.Wait{}) {
		return p, h
	}
	for i, sources := range moves {
		for _, source := range sources {
			all[i].waits[source] = wait
		}
	}
	return all[0].plan(), all[1].plan()
}

// waitForActs makes those sources wait that wait for a deploy or for a person. Each of them waits by itself (rule 33).
func (in Input) waitForActs() gated {
	g := gated{in, map[pin.Source]waiting.Wait{}}
	for _, use := range in.Uses {
		if turn := in.Sources[use.Source].Turn; turn.Reason == waiting.Stopped {
			g.waits[use.Source] = turn
			continue
		}
		if wait := waiting.ForAct(slices.Concat(in.Gates, in.Sources[use.Source].Gates), in.Deploys); wait != (waiting.Wait{}) {
			g.waits[use.Source] = wait
		}
	}
	return g
}

// moves returns the sources whose pins a plan moves, and that may wait.
func (in gated) moves(p Plan) []pin.Source {
	var sources []pin.Source
	for _, d := range p.Decisions {
		// The pods of a template that is replaced read what rotates as it is, whether its hash moves or not.
		if d.Verdict == Advanced && (!in.Replaced || !in.Sources[d.Source].Rotates) {
			sources = append(sources, d.Source)
		}
	}
	return sources
}

// gatesOf returns the gates of sources that move, and of their workload.
func (in gated) gatesOf(sources []pin.Source) []waiting.Gate {
	if len(sources) == 0 {
		return nil
	}
	gates := slices.Clone(in.Gates)
	for _, source := range sources {
		gates = append(gates, in.Sources[source].Gates...)
	}
	return gates
}

// turnsOf returns the turns of sources that move.
func (in gated) turnsOf(sources []pin.Source) []waiting.Wait {
	var turns []waiting.Wait
	for _, source := range sources {
		turns = append(turns, in.Sources[source].Turn)
	}
	return turns
}

// stays reports whether the pin of a source may not move from one revision to another.
func (in gated) stays(source pin.Source) bool {
	_, waits := in.waits[source]
	return in.Occasion == Request || waits
}

// explain adds to a decision what it waits for.
func (in gated) explain(d Decision) Decision {
	if d.Verdict == Waiting {
		d.Wait = in.waits[d.Source]
	}
	return d
}

// passesOver returns the decision about a first pin while the change is stopped.
func (s Source) passesOver(use podspec.Use, d Decision) Decision {
	if d.Verdict != Pinned || s.Turn.Reason != waiting.Stopped {
		return d
	}
	if d.Wait = s.Turn; s.mayStart(use, s.Instead) {
		d.To = s.Instead
	}
	return d
}

// delayFirst lets the first pins of a workload wait if one of them waits until fewer workloads roll out, so that they are one rollout (rule 38).
func (p *Plan) delayFirst(in Input) {
	isFirst := func(d Decision) bool { return d.Verdict == Pinned && in.Sources[d.Source].Present }
	i := slices.IndexFunc(p.Decisions, func(d Decision) bool { return isFirst(d) && in.delays(d.Source) })
	if i < 0 {
		return
	}
	about := in.Sources[p.Decisions[i].Source]
	until := cmp.Or(about.Until, waiting.ForFirst(slices.Concat(in.Gates, about.Gates)))
	for i := range p.Decisions {
		if d := &p.Decisions[i]; isFirst(*d) {
			d.Verdict, d.Wait = Waiting, until
			p.Repin(d, pin.Pin{})
		}
	}
}

// delays reports whether a first pin of a source waits. A deploy and a new workload never do.
func (in Input) delays(source pin.Source) bool {
	about := in.Sources[source]
	unread := waiting.ForFirst(slices.Concat(in.Gates, about.Gates)) != (waiting.Wait{})
	return about.Later || unread && in.Occasion != Change && !in.New
}

// mayStart reports whether a revision exists, and is known to have every key without which the workload's pods do not start.
func (s Source) mayStart(use podspec.Use, p pin.Pin) bool {
	return slices.ContainsFunc(s.Revisions, func(r Revision) bool {
		return r.Name == p.Revision && len(missingKeys(use, Source{Digests: r.Digests})) == 0
	})
}
