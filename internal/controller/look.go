package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// Planner makes the plans that the reconcilers would make, for people who ask. It writes only when told to, with the rights
// of who asks.
type Planner struct {
	Kinds    []workload.Kind
	Options  Options
	Snapshot *Snapshot
	live     client.Client
	store    *revision.Store
	kinds    *kinds
	triggers *triggers
}

// NewPlanner takes a snapshot of a namespace, or of all when it is empty, to plan with. live reads and writes without a cache.
func NewPlanner(ctx context.Context, live client.Client, options Options, namespace string) (*Planner, error) {
	options.RevisionsPerHour = max(options.RevisionsPerHour, 1<<20) // people may as often as they like
	all := slices.Concat(workload.Standard(), options.Kinds)
	snapshot, err := TakeSnapshot(ctx, live, options, all, namespace)
	if err != nil {
		return nil, err
	}
	known := &kinds{}
	for _, kind := range all {
		known.add(kind)
	}
	return &Planner{
		Kinds: all, Options: options, Snapshot: snapshot, live: live, kinds: known,
		store:    revision.NewStore(snapshot, live, live, time.Now, known, options.RevisionsPerHour),
		triggers: newTriggers(nil, live, live),
	}, nil
}

// Look is what is to be said of one workload.
type Look struct {
	Kind     workload.Kind
	Workload client.Object
	Asked    optin.Asked
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
	// Holders are the workload's holders.
	Holders []client.Object
	// Warnings are what the controller would warn of: reason and note.
	Warnings []Warning
}

// Warning is a condition that the user should know of; Notice says that nothing is wrong, somebody asked for it to be so.
type Warning struct {
	Reason, Note string
	Notice       bool
}

// Look plans for one workload of the snapshot. With advance, as if its pins might move now whatever confrev.io/advance says.
func (p *Planner) Look(ctx context.Context, kind workload.Kind, obj client.Object, advance bool) (Look, error) {
	r := p.reconciler(kind)
	look := Look{Kind: kind, Workload: obj}
	seen, err := r.observe(ctx, obj, view{
		known: &memory{}, reader: p.Snapshot, stays: func(a optin.Advance) bool { return !advance && a.Stays(false) },
	})
	if err != nil {
		return look, fmt.Errorf("look at %s %s: %w", kind.Resource(), key(obj), err)
	}
	want := r.intend(seen)
	look.Asked, look.Follows, look.Template, look.Sources = seen.asked, seen.follows(), seen.pins.Pins, seen.sources
	look.Pins, look.Hashes = want.pins, want.hashes
	if look.Uses, err = kind.Uses(obj); err != nil {
		return look, err
	}
	for _, w := range slices.Concat(seen.warnings, warnings(want.pins, true), warnings(want.hashes, false)) {
		look.Warnings = append(look.Warnings, Warning{w.reason, w.note, w.notice})
	}
	look.Holders, err = list(ctx, p.Snapshot, kind.Holder.NewList(), obj.GetNamespace(), byController, string(obj.GetUID()))
	return look, err
}

// Ensure makes sure that a revision with the present content of a source exists, to pin it by hand (rule 9).
func (p *Planner) Ensure(ctx context.Context, look Look, d plan.Decision) (pin.Pin, error) {
	source := revision.Ref{Kind: d.Source.Kind, Namespace: look.Workload.GetNamespace(), Name: d.Source.Name}
	made, _, err := p.store.Ensure(ctx, source, look.Sources[d.Source], d.Current.Number, p.reconciler(look.Kind).owner(look.Workload))
	return made, err
}

// UsersOf gives the workloads of the snapshot to which a source may matter, not looked at yet.
func (p *Planner) UsersOf(ctx context.Context, namespace string, source pin.Source) ([]Look, error) {
	var looks []Look
	for _, kind := range p.Kinds {
		for _, value := range []string{source.String(), anyOf(source.Kind)} {
			found, err := list(ctx, p.Snapshot, kind.NewList(), namespace, bySource, value)
			if err != nil {
				return nil, err
			}
			for _, obj := range found {
				looks = append(looks, Look{Kind: kind, Workload: obj})
			}
		}
	}
	return looks, nil
}

// PinnersOf gives the holders and workloads whose templates pin a revision.
func (p *Planner) PinnersOf(ctx context.Context, namespace string, revision pin.Source) ([]client.Object, error) {
	var all []client.Object
	for _, kind := range p.Kinds {
		found, err := list(ctx, p.Snapshot, kind.NewList(), namespace, byPin, revision.String())
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	for _, holder := range p.kinds.holders() {
		found, err := list(ctx, p.Snapshot, holder.NewList(), namespace, byPin, revision.String())
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// Workload finds a workload of the snapshot; nil when there is none.
func (p *Planner) Workload(kind workload.Kind, name types.NamespacedName) client.Object {
	for _, obj := range p.Snapshot.Objects(kind.GVK) {
		if key(obj) == name {
			return obj
		}
	}
	return nil
}

func (p *Planner) reconciler(kind workload.Kind) *workloads {
	return &workloads{
		kind: kind, kinds: p.kinds, options: p.Options, client: p.Snapshot, live: p.live, store: p.store, triggers: p.triggers,
		now: time.Now, memory: newMemories(),
	}
}
