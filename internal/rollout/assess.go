package rollout

import (
	"context"
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
	"confrev.io/confrev/internal/workload"
)

// Look is what is to be said of one workload.
type Look struct {
	Kind     workload.Kind
	Workload client.Object
	Asked    optin.Config
	// Follows is true when the workload is opted in to anything.
	Follows bool
	// Uses are all the sources that the template refers to, tracked or not.
	Uses []podspec.Use
	// Template are the template's pins now.
	Template pin.Set
	// Pins and Hashes are the plans of what is pinned and of what only makes it restart.
	Pins, Hashes plan.Plan
	// Sources has what is known of each source of the plans.
	Sources map[pin.Source]revision.Observation
	// Hidden is true when Secrets are handled, but the user may not see them.
	Hidden bool
	// Rollers are those whose controllers roll the template out: the workload, or those that refer to it.
	Rollers []Roller
	// Holders are theirs.
	Holders []client.Object
	// RolledOut are the pins that the workload's holders show, or those of the workloads that have their template in it.
	RolledOut []plan.Holder
	// Warnings are what the user should know of.
	Warnings []notice.Notice
	// Awaited are the sources without which the template cannot be pinned, nor its pods start (rule 7).
	Awaited []string
	// Shown is true when a holder shows what View.Wrote says, so that it need not be remembered.
	Shown bool
	// Triggers are the kinds of other objects on which the workload restarts.
	Triggers []FollowedKind
	// Retry is true when something was refused that may be permitted later.
	Retry bool

	seen observed
	want intent
}

// Change returns what is about to be written to the template; it has no text when that is nothing.
func (l Look) Change() Change { return l.want.change(l.seen) }

// Paused reports whether confrev pauses the workload, and goes on doing so (rule 7).
func (l Look) Paused() bool { return PausedByUs(l.Kind, l.Workload) && !l.want.resume }

// Resumes reports whether confrev's own pause of the workload ends with the change.
func (l Look) Resumes() bool { return l.want.resume }

// String returns the workload as kubectl takes it: "deployment/web".
func (l Look) String() string { return l.Kind.Resource() + "/" + l.Workload.GetName() }

// Rotates reports whether a source that the workload follows has the policy rotate.
func (l Look) Rotates(source pin.Source) bool { return l.seen.rotating[source] }

// Roller is a workload whose controller rolls out a template: its own, or that of the workload that it refers to.
type Roller struct {
	Kind   workload.Kind
	Object client.Object
}

// View says how to look at a workload, beyond what the cluster shows.
type View struct {
	// Wrote is what the template was last given; nil where that is not known.
	Wrote *Given
	// Advance is true where pins may move now, whatever confrev.io/advance says.
	Advance bool
}

// Look observes a workload and decides. With an error, what could be observed is in the warnings, and nothing may be written.
func (r *Engine) Look(ctx context.Context, obj client.Object, v View) (Look, error) {
	look := Look{Kind: r.Kind, Workload: obj}
	seen, want, err := r.lookAndPlan(ctx, obj, view{
		wrote: v.Wrote, reader: r.Client, stays: func(a optin.Advance) bool { return !v.Advance && a.Blocks(false) },
	})
	if err == nil {
		// What the webhook left of a request (rule 21.3).
		want, err = r.endHolds(ctx, obj, nil, &seen, want)
	}
	look.Awaited = seen.awaited(want.pins)
	want.resume = obj.GetAnnotations()[keys.Paused] != "" && (!r.Kind.Paused(obj) || len(look.Awaited) == 0)
	look.seen, look.want = seen, want
	look.Shown, look.Triggers, look.Retry, look.Warnings = seen.shown, seen.triggers, seen.retry, seen.warnings
	if err != nil {
		return look, err
	}
	look.Asked, look.Follows, look.Template, look.Sources = seen.asked, seen.follows(), seen.pins.Pins, seen.sources
	look.Pins, look.Hashes, look.RolledOut = want.pins, want.hashes, seen.pins.Holders
	look.Warnings = slices.Concat(seen.warnings, warnings(want.pins, true), warnings(want.hashes, false))
	return look, nil
}

// Describe completes a look for people: with all that the template refers to, and with anyone who rolls it out.
func (r *Engine) Describe(ctx context.Context, look *Look) (err error) {
	// A template that is none has been warned of.
	if look.seen.template != nil {
		if look.Uses, err = r.Kind.Uses(look.Workload); err != nil {
			return err
		}
	}
	return r.findHolders(ctx, look)
}

// findHolders finds who rolls the template out, and their holders.
func (r *Engine) findHolders(ctx context.Context, look *Look) error {
	referring, err := index.Referring(ctx, r.Client, r.Kinds, look.Kind, look.Workload)
	if err != nil {
		return err
	}
	for _, obj := range referring {
		i := slices.IndexFunc(r.Kinds.All(), func(k workload.Kind) bool { return k.GVK == workload.GVKOf(obj) })
		look.Rollers = append(look.Rollers, Roller{r.Kinds.All()[i], obj})
	}
	if len(referring) == 0 {
		look.Rollers = []Roller{{look.Kind, look.Workload}}
	}
	for _, roller := range look.Rollers {
		found, err := index.List(ctx, r.Client, roller.Kind.Holder.NewList(), roller.Object.GetNamespace(), index.ByController, string(roller.Object.GetUID()))
		if err != nil {
			return err
		}
		look.Holders = append(look.Holders, found...)
	}
	return nil
}
