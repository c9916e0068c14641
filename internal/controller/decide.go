package controller

import (
	"context"
	"errors"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
)

// intent is what should become of a workload: the plans of its pins and of its hashes.
type intent struct {
	pins, hashes plan.Plan
	// release is true when pins of the template are to go, although nothing else of the intent changes.
	release bool
	// resume is true when confrev's own pause is to end (rule 7).
	resume bool
	// inject are the references of the template that are to name something else.
	inject []injection
	// restart is true when pods are to be replaced although the template stays: for what rotates, where that is asked for.
	restart bool
}

// changes tells whether the template must be written.
func (i intent) changes() bool {
	return i.pins.Changed() || i.hashes.Changed() || i.release || len(i.inject) > 0
}

// text stands for all that the template should say.
func (i intent) text() string {
	text := i.pins.Pins.String() + " " + i.hashes.Pins.String()
	if i.onlyInjects() {
		text += " injected"
	}
	return text
}

// onlyInjects tells whether nothing but the names of references changes.
func (i intent) onlyInjects() bool {
	return len(i.inject) > 0 && !i.pins.Changed() && !i.hashes.Changed() && !i.release
}

// intend makes the plans.
func (r *engine) intend(seen observed) intent {
	want := intent{pins: plan.Make(seen.pins), hashes: plan.Make(seen.hashes)}
	if seen.template == nil {
		return want
	}
	want.release = seen.asked.Mode == optin.Attach && seen.asked.Track.Enabled() && len(seen.pins.Pins) > 0 || seen.pins.PinsAbsence()
	if seen.unbounded {
		want.pins.Pins, want.pins.Held = seen.pins.Pins, seen.pins.Held
		return want
	}
	want.injectAgain(seen)
	return want
}

// injectAgain finds the references to change anew, after some pin or hash is not to change after all.
func (i *intent) injectAgain(seen observed) {
	i.inject = nil
	if !seen.unbounded && (i.release || seen.follows()) {
		i.inject = seen.injections(i.pins.Pins, i.pins.Changed() || i.hashes.Changed() || i.release)
	}
}

// advances lists the sources whose changes an intent rolls out. First pins are none.
func (i intent) advances() []pin.Source {
	var sources []pin.Source
	for _, d := range slices.Concat(i.pins.Decisions, i.hashes.Decisions) {
		if d.From != (pin.Pin{}) && d.To != d.From {
			sources = append(sources, d.Source)
		}
	}
	return sources
}

// needsPolicies tells whether an intent writes pins that only admission resolves.
func (seen observed) needsPolicies(want intent) bool {
	return seen.asked.Injection == optin.Admission && len(want.pins.Pins) > 0 && (want.pins.Changed() || len(want.inject) > 0)
}

// limit takes back the restarts for what changes too often (rule 11); pins are limited where revisions are made.
func (r *engine) limit(ctx context.Context, seen observed, want *intent) []notice.Notice {
	var limited []notice.Notice
	for i := range want.hashes.Decisions {
		d := &want.hashes.Decisions[i]
		if d.To == d.From {
			continue
		}
		hash := seen.sources[d.Source].Hash
		if hash == "" {
			hash = content.Hash(d.To.Revision)
		}
		err := r.store.Admit(ctx, revision.Ref{Kind: d.Source.Kind, Namespace: seen.namespace, Name: d.Source.Name}, hash, 0)
		if terminal, ok := errors.AsType[*revision.TerminalError](err); ok {
			limited = append(limited, notice.Notice{Reason: terminal.Reason, Source: d.Source, Text: terminal.Message})
			want.hashes.Repin(d, d.From)
		}
	}
	if len(limited) > 0 {
		want.injectAgain(seen)
	}
	return limited
}

// refresh keeps the sources' labels and the notes on the revisions that are current. A label only helps people to list things:
// where it cannot be written, since a policy keeps everyone from what a GitOps tool manages, say, the rollout goes on without.
func (r *engine) refresh(ctx context.Context, seen observed, p plan.Plan) error {
	var errs []error
	for _, d := range p.Decisions {
		if d.Current == (pin.Pin{}) {
			continue
		}
		source := revision.Ref{Kind: d.Source.Kind, Namespace: seen.namespace, Name: d.Source.Name}
		if err := r.store.Label(ctx, source); err != nil && !revision.IsChanged(err) {
			log.FromContext(ctx).Info("cannot label a source; going on without", "source", d.Source.String(), "error", err.Error())
		}
		errs = append(errs, r.store.Refresh(ctx, source, seen.sources[d.Source], d.Current))
	}
	return errors.Join(errs...)
}
