package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
)

// Refresh updates the sources' labels and the notes on the current revisions. A label only helps people to list objects: if it cannot be
// written, for example because a policy forbids changes to what a GitOps tool manages, the rollout continues without it.
func (r *Engine) Refresh(ctx context.Context, look Assessment) error {
	var errs []error
	for _, d := range look.want.pins.Decisions {
		if d.Current == (pin.Pin{}) {
			continue
		}
		source := revision.Ref{Kind: d.Source.Kind, Namespace: look.seen.namespace, Name: d.Source.Name}
		if err := r.Store.Label(ctx, source); err != nil && !revision.IsChanged(err) {
			log.FromContext(ctx).Info("cannot label a source; continuing without the label", "source", d.Source.String(), "error", err.Error())
		}
		errs = append(errs, r.Store.Refresh(ctx, source, look.seen.sources[d.Source], d.Current))
	}
	return errors.Join(errs...)
}

// Limit drops restarts because of objects that change too often, and returns warnings about them.
func (r *Engine) Limit(ctx context.Context, look *Assessment) []notice.Notice {
	limited := r.limit(ctx, look.seen, &look.want)
	look.want.restartInstead(r.Kind, look.Workload, look.seen)
	return limited
}

// Prepare makes sure that every revision exists which the change pins. It returns notices of the revisions that it created, and warnings
// about those that were refused. If all that made the change urgent is refused, it copies nothing else: the rest has to wait, as it would
// alone, and Prepare can be called again.
func (r *Engine) Prepare(ctx context.Context, look *Assessment) (made, refused []notice.Notice, err error) {
	owner := r.owner(look.Workload)
	if err := r.keep(ctx, owner, look.seen, look.want.pins, isEarlier, func(plan.Decision) bool { return false }); err != nil {
		return nil, nil, err
	}
	urgent := look.want.pins.Urgent()
	made, refused, err = r.ensure(ctx, look.Workload, owner, look.seen, &look.want.pins, plan.Decision.IsFirst)
	if err == nil && urgent == look.want.pins.Urgent() {
		more, also, failed := r.ensure(ctx, look.Workload, owner, look.seen, &look.want.pins, plan.Decision.IsLater)
		made, refused, err = append(made, more...), append(refused, also...), failed
	}
	if err == nil && len(look.want.inject) > 0 {
		// Some pins may differ from the intended ones.
		look.want.injectAgain(look.seen)
	}
	return made, refused, err
}

// isEarlier reports whether a decision pins an earlier revision in place of the present content: what others work with, or what a held workload has lost.
// That revision was not made for this workload just now, and could be deleted with its other users.
func isEarlier(d plan.Decision) bool {
	return d.To != d.From && (d.Verdict == plan.Held || d.Verdict == plan.Pinned && d.To.Revision != d.Current.Revision)
}

func isAny(plan.Decision) bool { return true }

// keep makes sure that the earlier revisions are kept to which a workload is about to be pinned, for the decisions that are chosen (rules 9
// and 12). shown reports whether a holder of the workload pins a revision already.
func (r *Engine) keep(ctx context.Context, owner revision.Owner, seen *observed, p plan.Plan, chosen, shown func(plan.Decision) bool) error {
	for _, d := range p.Decisions {
		if d.To == (pin.Pin{}) || !chosen(d) {
			continue
		}
		made := revision.Ref{Kind: d.Source.Kind, Namespace: seen.namespace, Name: d.To.Revision}
		if err := r.Store.Keep(ctx, d.Source, made, owner, shown(d)); err != nil {
			return err
		}
	}
	return nil
}

// ensure makes sure, with the API server and right before the pins are written, that every revision exists which the chosen decisions newly pin (rule 9).
// A source that cannot be copied keeps its pin. It returns notices of the revisions that it created, and warnings about those that were refused.
func (r *Engine) ensure(ctx context.Context, obj client.Object, owner revision.Owner, seen *observed, p *plan.Plan, chosen func(plan.Decision) bool) (made, refused []notice.Notice, err error) {
	var errs []error
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if !chosen(*d) || !seen.needsRevision(*d) {
			continue
		}
		source := revision.Ref{Kind: d.Source.Kind, Namespace: seen.namespace, Name: d.Source.Name}
		to, created, err := r.Store.Ensure(ctx, source, seen.sources[d.Source], d.To.Number, owner)
		terminal, isTerminal := errors.AsType[*notice.TerminalError](err)
		switch {
		case isTerminal:
			refused = append(refused, terminal.About(d.Source))
			to = d.From
		case err != nil:
			errs = append(errs, err)
			continue
		case created:
			made = append(made, r.created(obj, seen, *d, to))
		}
		if d.To != d.From {
			p.Repin(d, to)
		}
	}
	return made, refused, errors.Join(errs...)
}

func (r *Engine) created(obj client.Object, seen *observed, d plan.Decision, made pin.Pin) notice.Notice {
	n := notice.Notice{Reason: notice.RevisionCreated, Normal: true, Object: obj, Kind: r.Kind.Resource(), Source: d.Source, To: made}
	source := seen.sources[d.Source].Object
	if source != nil {
		n.SourceObject = source
	}
	switch {
	case source == nil:
		n.Text = fmt.Sprintf("Created revision %s for the absence of %s, which is optional", made, d.Source)
	case d.Verdict == plan.InSync:
		n.Reason, n.Text = notice.RevisionRecreated, fmt.Sprintf("Recreated revision %s of %s, which was deleted while in use", made.Revision, d.Source)
	default:
		n.Text = fmt.Sprintf("Created revision %s of %s", made, d.Source)
	}
	return n
}

// owner returns the workload, as an owner of the revisions that it pins.
func (r *Engine) owner(obj client.Object) revision.Owner {
	apiVersion, kind := r.Kind.GVK.ToAPIVersionAndKind()
	return revision.Owner{APIVersion: apiVersion, Kind: kind, Name: obj.GetName(), UID: obj.GetUID()}
}

// needsRevision reports whether a decision pins current, or found that current is pinned already but its revision is lost. In the second
// case, the source has got back the content that was lost (rule 9).
func (seen *observed) needsRevision(d plan.Decision) bool {
	if d.Verdict == plan.InSync && d.To.Revision == d.Current.Revision {
		return !seen.sources[d.Source].Exists(d.To.Revision)
	}
	// What others work with exists already.
	return d.To != d.From && d.Verdict != plan.Held && (d.Verdict != plan.Pinned || d.To == d.Current)
}

// limit drops restarts because of objects that change too often (rule 11). Pins are limited when revisions are created.
func (r *Engine) limit(ctx context.Context, seen *observed, want *intent) []notice.Notice {
	var limited []notice.Notice
	for i := range want.hashes.Decisions {
		d := &want.hashes.Decisions[i]
		if d.To == d.From {
			continue
		}
		object, hash := revision.Ref{Kind: d.Source.Kind, Namespace: seen.namespace, Name: d.Source.Name}, cmp.Or(seen.sources[d.Source].Hash, content.Hash(d.To.Revision))
		err := r.Store.AdmitPart(ctx, object, seen.config.FieldsOf(d.Source), hash)
		if terminal, ok := errors.AsType[*notice.TerminalError](err); ok {
			limited = append(limited, terminal.About(d.Source))
			want.hashes.Repin(d, d.From)
		}
	}
	if len(limited) > 0 {
		want.injectAgain(seen)
	}
	return limited
}
