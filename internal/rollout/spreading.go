package rollout

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/analysis"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/waiting"
	"confrev.io/confrev/internal/workload"
)

// Others knows how the other workloads of a source take a change (package fleet).
type Others interface {
	// Turn returns what a workload waits for before it may take the present content of a source; zero if it may.
	Turn(ctx context.Context, change Spreading, workload string) (waiting.Wait, error)
	// GiveBack lets others go before a workload whose turn it was, since it does not take the change after all.
	GiveBack(ctx context.Context, change Spreading, workload string)
	// Stopped returns why the present content of a source goes no further; zero if it may. instead is the newest revision that workloads work with
	// which do not have it; zero if there is none.
	Stopped(ctx context.Context, change Spreading) (why waiting.Wait, instead pin.Pin, err error)
}

// Spreading is a change that spreads: the present content of a source, and how fast it may go.
type Spreading struct {
	Source   revision.Ref
	Meta     *metav1.PartialObjectMetadata
	Settings spread.Settings
	// To is the revision of the present content, as a workload sees it; zero if it is not asked for one.
	To pin.Pin
	// FirstPin is true if the workload that asks has no pin of the source yet.
	FirstPin bool
}

// spreading returns the change to a source, if such changes spread, or this one is stopped because of failures: a stop outlasts the settings.
func (seen *observed) spreading(source pin.Source) (Spreading, bool) {
	settings, meta := seen.config.Spreading.With(seen.spreads[source]).Or(seen.config.Safety), seen.metas[source]
	ref := revision.Ref{Kind: source.Kind, Namespace: seen.namespace, Name: source.Name}
	stopped := seen.sources[source].Stops() > seen.pins.Sources[source].Resumed
	return Spreading{Source: ref, Meta: meta, Settings: settings}, (settings.Active() || stopped) && meta != nil
}

// takeTurns plans again if some source must not advance because it is stopped, or because it is not the workload's turn (rules 37 to 39).
func (r *Engine) takeTurns(ctx context.Context, obj client.Object, seen *observed, want intent) (intent, error) {
	again := false
	for _, d := range want.pins.Decisions {
		var err error
		source := seen.pins.Sources[d.Source]
		change, spreads := seen.spreading(d.Source)
		// What only this workload notes must not make it another change than the one that is stopped.
		if change.To = d.Current; change.To.Revision == source.Name {
			change.To.Number = source.FollowingNumber()
		}
		stopped, asks := change.Meta != nil && change.Meta.Annotations[keys.Stop] == d.Current.Revision, r.Others != nil && !seen.alone
		// A stop is said first, whatever else it waits for.
		waits := d.Verdict == plan.Waiting && d.Wait.Reason != ""
		switch {
		case seen.isFirst(d) && source.Present && (stopped || spreads) && asks:
			source.Turn, source.Instead, err = r.Others.Stopped(ctx, change)
			switch {
			case d.Verdict == plan.Held && d.From != source.Instead:
				// The user chose it.
				source.Turn = waiting.Wait{}
			case stopped && source.Turn == (waiting.Wait{}):
				// No other workload uses it.
				source.Turn = waiting.ForStop(d.Source.String())
			}
		case stopped && (d.Verdict == plan.Advanced || waits && !seen.alone):
			source.Turn = waiting.ForStop(d.Source.String())
		case spreads && waits && asks:
			source.Turn, _, err = r.Others.Stopped(ctx, change)
		case d.Verdict != plan.Advanced:
			continue
		case spreads && asks:
			source.Turn, err = r.turn(ctx, obj, seen, change)
		}
		_, given := seen.request[d.Source]
		if err == nil && spreads && asks && !given && d.Verdict == plan.Pinned && source.Present && r.takesPlace(seen, change) {
			source.Later, source.Until, err = r.placeOfFirst(ctx, obj, seen, change)
		}
		if err != nil {
			r.giveBack(ctx, obj, seen, seen.pins.Pins)
			return want, err
		}
		again = again || source.Later || source.Turn != (waiting.Wait{})
		seen.pins.Sources[d.Source] = source
	}
	if again {
		want = seen.decide()
		r.giveBack(ctx, obj, seen, want.pins.Pins)
	}
	return want, r.confirmUnwell(ctx, obj, seen, want)
}

// turn returns what a workload waits for before it may take a change. If it waits for nothing, it has a place (rule 38).
func (r *Engine) turn(ctx context.Context, obj client.Object, seen *observed, change Spreading) (waiting.Wait, error) {
	wait, err := r.Others.Turn(ctx, change, r.Kind.Resource()+"/"+obj.GetName())
	if err == nil && wait == (waiting.Wait{}) {
		seen.places = append(seen.places, change)
	}
	return wait, err
}

// giveBack ends the turns of a workload with changes that it does not take after all: its template is to have these pins.
func (r *Engine) giveBack(ctx context.Context, obj client.Object, seen *observed, pins pin.Set) {
	seen.places = slices.DeleteFunc(seen.places, func(change Spreading) bool {
		source := change.Source.Source()
		stays := pins[source] == seen.pins.Pins[source]
		if stays {
			r.Others.GiveBack(ctx, change, r.Kind.Resource()+"/"+obj.GetName())
		}
		return stays
	})
}

// GiveBack does so once it is known whether the template was written. It reports whether there were any.
func (r *Engine) GiveBack(ctx context.Context, look Assessment, written bool) bool {
	pins, places := look.seen.pins.Pins, len(look.seen.places)
	if written {
		pins = look.want.pins.Pins
	}
	r.giveBack(ctx, look.Workload, look.seen, pins)
	return len(look.seen.places) < places
}

// placeOfFirst finds out whether a first pin has to wait until fewer workloads roll out (rule 38). Deploys do not wait, and in a request that changes
// nothing else, only the controller knows.
func (r *Engine) placeOfFirst(ctx context.Context, obj client.Object, seen *observed, change Spreading) (later bool, until waiting.Wait, err error) {
	if seen.pins.Occasion != plan.Edit {
		return seen.pins.Occasion == plan.Request, waiting.Wait{}, nil
	}
	change.FirstPin = true
	until, err = r.turn(ctx, obj, seen, change)
	return until != (waiting.Wait{}), until, err
}

// takesPlace reports whether a first pin of a workload takes up a place: it exists already, runs pods, and how many may be replaced at the same time is limited.
func (r *Engine) takesPlace(seen *observed, c Spreading) bool {
	return len(c.Settings.MaxRolling) > 0 && !seen.pins.New && !r.Kind.RunsJobs()
}

// isFirst reports whether a decision is about a first pin: one that is about to be given, or one that the same request got already, when the
// webhook was called before.
func (seen *observed) isFirst(d plan.Decision) bool {
	return d.Verdict == plan.Pinned || d.Verdict == plan.Held && seen.pins.New && seen.pins.Chosen[d.Source]
}

// confirmUnwell reads those again that roll out a workload's template if it is about to take a change that spreads and does not look well: the cache may not
// show yet that it has got well, and no failure of a workload counts that was not well before.
func (r *Engine) confirmUnwell(ctx context.Context, obj client.Object, seen *observed, want intent) error {
	if !want.takes(seen) {
		return nil
	}
	if unwell, _ := r.unwell(obj, seen); !unwell {
		return nil
	}
	for i, roller := range seen.rollers {
		if roller.Object == seen.old {
			continue
		}
		fresh := roller.Kind.New()
		if err := r.Whole.Get(ctx, client.ObjectKeyFromObject(roller.Object), fresh); err != nil {
			return client.IgnoreNotFound(err)
		}
		seen.rollers[i].Object = fresh
	}
	return nil
}

// unwell reports whether anyone who rolls a workload's template out is not well with it, or in the middle of a rollout.
func (r *Engine) unwell(obj client.Object, seen *observed) (unwell, disturbed bool) {
	for _, health := range seen.health(cmp.Or(seen.old, obj)) {
		unwell, disturbed = unwell || !health.Idle && !health.Works, disturbed || !health.Idle && health.Disturbed
	}
	return unwell && !r.Kind.RunsJobs(), disturbed
}

// health returns that of all who roll the template of a workload out.
func (seen *observed) health(lender client.Object) (all []workload.Health) {
	for _, roller := range seen.rollers {
		all = append(all, roller.Kind.HealthOf(seen.holders, roller.Object, lender))
	}
	return all
}

// takes reports whether a pin advances to a change that spreads.
func (i intent) takes(seen *observed) bool {
	return slices.ContainsFunc(i.pins.Decisions, func(d plan.Decision) bool {
		_, spreads := seen.spreading(d.Source)
		return spreads && d.Verdict == plan.Advanced && d.To != d.From
	})
}

// advanced returns the text of keys.Advanced: a note of the advance if some source moves whose changes spread, otherwise what was there. What moves together
// fails together, and goes back together, even if only one of the changes spreads (rule 40).
func (i intent) advanced(r *Engine, obj client.Object, seen *observed) string {
	moved := spread.Advance{To: pin.Set{}, From: pin.Set{}}
	together := i.takes(seen)
	for _, d := range i.pins.Decisions {
		switch change, spreads := seen.spreading(d.Source); {
		case together && d.Verdict == plan.Advanced && d.To != d.From:
			moved.To[d.Source], moved.From[d.Source] = d.To, d.From
		case spreads && d.Verdict == plan.Pinned && d.To != (pin.Pin{}) && r.takesPlace(seen, change):
			// There is nothing to go back to.
			moved.To[d.Source] = d.To
		}
	}
	if len(moved.To) == 0 {
		return seen.notes.advanced
	}
	before, _ := spread.ParseAdvance(seen.notes.advanced)
	unwell, disturbed := r.unwell(obj, seen)
	moved.At, moved.Code, moved.Unwell = r.Now(), r.code(obj).Digest(), unwell
	settled := before.Code != moved.Code || !unwell || !disturbed
	for source, p := range moved.From {
		if last, noted := before.From[source]; noted && before.To[source] == p && !settled {
			// It never got well with what it has, which is nothing to go back to.
			moved.From[source] = last
		}
	}
	moved.Keep(before, i.pins.Pins, settled)
	return moved.String()
}

// Spreading returns the changes that are about to advance, or wait for their turn.
func (l Assessment) Spreading() []Spreading {
	var all []Spreading
	for _, d := range l.Pins.Decisions {
		if change, spreads := l.seen.spreading(d.Source); spreads && (d.Verdict == plan.Advanced || d.Wait.IsTurn()) {
			all = append(all, change)
		}
	}
	return all
}

// Standing is how a workload stands to the present content of a source, regardless of others.
type Standing struct {
	Decision plan.Decision
	Source   revision.Observation
	Wave     int
	// Has is true if it has taken the present content as a change that spreads, or together with one, which Advance notes.
	Has     bool
	Advance spread.Advance
	// First is true if it waits for its first pin of the source, or has got that and no other since.
	First bool
	// Stop is the number of the stop because of which confrev rolled it back from there, if no one has ended that; 0 otherwise.
	Stop int
	// Health are those of all that roll its template out. Proven is true if a Job has succeeded with the present content, Disproven if the Jobs with
	// it have failed, and the last one with other content had succeeded.
	Health                    []workload.Health
	Paused, Proven, Disproven bool
	// Code is true while it has the code with which it took the change, or was rolled back from it. Deadline is how long it may take it.
	Code     bool
	Deadline time.Duration
	// Crashes are how many crashes of a container are a failure; 0 if it does not say.
	Crashes int
	// Template is its pod template, and Owners own its pods: itself, what refers to it, and its holders.
	Template *corev1.PodTemplateSpec
	Owners   []types.UID
	// Analysis are the AnalysisTemplates that say whether it is well, and InvalidAnalysis is true if they cannot be read. Subject is what
	// their AnalysisRuns are about.
	Analysis        []string
	InvalidAnalysis bool
	Subject         analysis.Subject
}

// Stand finds out how a workload stands to the present content of a source, whose metadata reader may show at a later state than the
// cache. It is false for one that the change does not concern; then only Source counts.
func (r *Engine) Stand(ctx context.Context, obj client.Object, source pin.Source, reader client.Reader) (Standing, bool, error) {
	seen, want, err := r.observeAndDecide(ctx, obj, view{reader: reader, alone: true})
	if err != nil {
		return Standing{}, false, err
	}
	for _, d := range want.pins.Decisions {
		change, _ := seen.spreading(source)
		wants := d.From == (pin.Pin{}) && seen.pins.Sources[source].Present && (d.Verdict == plan.Waiting || d.Verdict == plan.Pinned && r.takesPlace(seen, change))
		if d.Source != source || d.From == (pin.Pin{}) && !wants {
			continue
		}
		s := Standing{Decision: d, Source: seen.sources[source], Wave: seen.config.Wave}
		s.Advance, _ = spread.ParseAdvance(seen.notes.advanced)
		code := r.code(obj).Digest()
		s.Deadline, s.Crashes, s.Template, s.Owners = seen.config.Deadline, seen.config.Crashes, seen.template, seen.owners()
		s.Analysis, s.InvalidAnalysis = seen.config.Analysis, seen.config.InvalidAnalysis
		s.Subject = analysis.Subject{
			Owner:     *metav1.NewControllerRef(obj, r.Kind.GVK),
			Namespace: obj.GetNamespace(), Pins: seen.notes.pins, At: s.Advance.At,
		}
		s.Subject.Owner.BlockOwnerDeletion = nil
		if s.Code = s.Advance.CodeOf(source) == code; d.Verdict == plan.Held {
			s.Stop = want.pins.Held[source].Stop
			back := plan.FindRollback(seen.pins.Holders, source, want.pins.Held[source].From, d.From)
			s.Code = back.From >= 0 && r.Kind.Holder.Facts(seen.holders[back.From]).Code == code
		}
		s.Has = d.Verdict == plan.InSync && s.Advance.To[source] == d.From && d.From.Revision == d.Current.Revision && d.From.Number >= s.Source.Since()
		_, noted := s.Advance.From[source]
		if s.First = wants || s.Has && !noted && !change.Settings.Leads; d.Verdict == plan.InSync && !s.First && (!s.Has || !noted) {
			if !change.Settings.Leads || d.From.Revision != d.Current.Revision {
				return s, false, nil
			}
			// It vouches for what it has, for the namespaces that come next. No failure of it is one of a change.
			s.Has, s.Advance = true, spread.Advance{Unwell: true}
		}
		s.Proven, s.Disproven = r.shown(seen, source, d.From, s.Advance.At)
		s.Health = seen.health(obj)
		s.Paused = slices.ContainsFunc(seen.rollers, func(roller Roller) bool { return roller.Kind.Paused(roller.Object) })
		return s, true, nil
	}
	return Standing{}, false, nil
}

// owners returns the UIDs of the objects that own a workload's pods.
func (seen *observed) owners() []types.UID {
	all := slices.Clone(seen.uids)
	for _, holder := range seen.holders {
		if holder != nil {
			all = append(all, holder.GetUID())
		}
	}
	return all
}

// shown returns what Jobs show of a source's content: whether one with that has succeeded, or all of them failed although the last one with
// other content had succeeded. A failure from before it took the content does not count: it may have taken it a second time (rule 40).
func (r *Engine) shown(seen *observed, source pin.Source, at pin.Pin, since time.Time) (proven, disproven bool) {
	failed, before := false, workload.Facts{}
	for i, holder := range seen.pins.Holders {
		if seen.holders[i] == nil {
			continue
		}
		facts, created := r.Kind.Holder.Facts(seen.holders[i]), seen.holders[i].GetCreationTimestamp()
		switch with := holder.Pins[source] == at; {
		case with:
			proven, failed = proven || facts.Succeeded, failed || facts.Failed && !created.Time.Before(since.Truncate(time.Second))
		case (facts.Succeeded || facts.Failed) && facts.Order >= before.Order:
			before = facts
		}
	}
	return proven, failed && !proven && before.Succeeded
}
