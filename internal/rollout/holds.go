package rollout

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
)

// endHolds plans again if a deploy ends a hold: the one of a request that replaces old, or, outside of admission, one that
// the webhook missed (rule 21.3).
func (r *Engine) endHolds(ctx context.Context, obj, old client.Object, seen *observed, want intent) (intent, error) {
	if len(want.pins.Held)+len(want.hashes.Held) == 0 {
		return want, nil
	}
	d := deploy{Engine: r, holders: seen.holders, after: r.code(obj, seen.earlier...)}
	if old != nil {
		d.before = r.code(old)
		if len(d.after.Differences(d.before)) == 0 {
			return want, nil
		}
	}
	var err error
	if seen.pins.Ended, err = d.ends(ctx, seen.pins.Holders, want.pins); err != nil {
		return want, err
	}
	if seen.hashes.Ended, err = d.ends(ctx, seen.hashes.Holders, want.hashes); err != nil {
		return want, err
	}
	if len(seen.pins.Ended)+len(seen.hashes.Ended) == 0 {
		return want, nil
	}
	return seen.decide(), nil
}

// deploy is a change to code while something is held.
type deploy struct {
	*Engine
	// holders are those that the plans were made of; nil for what no holder shows yet.
	holders []client.Object
	// before and after are the code of the template; before is nil where only the template as it is now is known.
	before, after podspec.Code
}

// ends returns the sources of a plan whose hold the deploy ends. Sources that are held from the same holder end together.
func (d deploy) ends(ctx context.Context, holders []plan.Holder, p plan.Plan) (map[pin.Source]bool, error) {
	from, over := map[pin.Source]int{}, map[int]bool{}
	for _, decision := range p.Decisions {
		if decision.Verdict != plan.Held || decision.From == (pin.Pin{}) {
			continue
		}
		back := plan.FindRollback(holders, decision.Source, p.Held[decision.Source].From, decision.From)
		if back.From < 0 || d.holders[back.From] == nil {
			continue
		}
		from[decision.Source] = back.From
		ends, err := d.undoesTheUndo(ctx, back)
		if err != nil {
			return nil, err
		}
		over[back.From] = over[back.From] || ends
	}
	ended := map[pin.Source]bool{}
	for source, holder := range from {
		if over[holder] {
			ended[source] = true
		}
	}
	return ended, nil
}

func (d deploy) undoesTheUndo(ctx context.Context, back plan.Rollback) (bool, error) {
	shown := back.To >= 0 && d.holders[back.To] != nil
	if d.before == nil && (!shown || d.Kind.Holder.Facts(d.holders[back.To]).Code == d.after.Digest()) {
		// The workload still runs what it was rolled back to.
		return false, nil
	}
	if shown && !d.Kind.Restored(d.holders, back.From, back.To) {
		return false, nil
	}
	from, err := d.read(ctx, d.holders[back.From])
	if from == nil || err != nil {
		return false, err
	}
	// Until a holder shows it, the template itself is what was rolled back to.
	to := d.before
	if shown {
		if to, err = d.read(ctx, d.holders[back.To]); to == nil || err != nil {
			return false, err
		}
	}
	before := d.before
	if before == nil {
		before = to
	}
	return plan.EndsHold(from, to, before, d.after), nil
}

// read reads the code of a holder. It returns none if the holder no longer exists.
func (d deploy) read(ctx context.Context, holder client.Object) (podspec.Code, error) {
	live := d.Kind.Holder.New()
	err := d.Whole.Get(ctx, client.ObjectKeyFromObject(holder), live)
	if apierrors.IsNotFound(err) || err == nil && live.GetUID() != holder.GetUID() {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", d.Kind.Holder.GVK.Kind, client.ObjectKeyFromObject(holder), err)
	}
	template, err := d.Kind.Holder.Template(live)
	if err != nil {
		return nil, nil //nolint:nilerr // A holder without a valid template shows nothing.
	}
	pins, _ := pin.Parse(template.Annotations[keys.Pins])
	return podspec.CodeOf(&template.Spec, pins), nil
}

// code returns the code of a workload's template, with the names of sources in place of revisions of its own or earlier pins.
func (r *Engine) code(obj client.Object, earlier ...pin.Set) podspec.Code {
	return podspec.CodeOf(&r.Template(obj).Spec, append([]pin.Set{r.pinsOf(obj)}, earlier...)...)
}

// Template returns a workload's pod template, or an empty one if it has none.
func (r *Engine) Template(obj client.Object) *corev1.PodTemplateSpec {
	template, err := r.Kind.Template(obj)
	if err != nil {
		return &corev1.PodTemplateSpec{}
	}
	return template
}

// pinsOf returns the pins of a workload's template. It returns none if they are malformed.
func (r *Engine) pinsOf(obj client.Object) pin.Set {
	pins, _ := r.Kind.Pins(obj)
	return pins
}
