package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/snapshot"
	"confrev.io/confrev/internal/workload"
)

// Planner makes the plans that the reconcilers would make, for people who ask. It writes only when told to, with the rights
// of who asks.
type Planner struct {
	Kinds    []workload.Kind
	Options  Options
	Snapshot *snapshot.Snapshot
	live     client.Client
	store    *revision.Store
	kinds    *workload.Kinds
	triggers *triggers
	accounts *accounts
	// hidden is true when Secrets are handled, but the user may not see them.
	hidden bool
	yields *yielding
}

// NewPlanner takes a snapshot of a namespace, or of all when it is empty, to plan with. live reads and writes without a cache.
func NewPlanner(ctx context.Context, live client.Client, options Options, namespace string) (*Planner, error) {
	return NewPlannerOf(ctx, live, options, namespace, slices.Concat(workload.Standard(), options.Kinds))
}

// NewPlannerOf takes a snapshot of only some kinds, for who has no business with others, and may have no right to list them.
func NewPlannerOf(ctx context.Context, live client.Client, options Options, namespace string, all []workload.Kind) (*Planner, error) {
	options.RevisionsPerHour = max(options.RevisionsPerHour, 1<<20) // people may as often as they like
	seen, err := snapshot.Take(ctx, live, all, options.sourceKinds(), options.defaults(), namespace)
	if err != nil {
		return nil, err
	}
	// Secrets that the user may not list are nobody's business; what else there is can be told all the same.
	hidden := options.Secrets && seen.Refused(revision.GVK(pin.Secret)) != nil
	options.Secrets = options.Secrets && !hidden
	known := &workload.Kinds{}
	for _, kind := range all {
		known.Add(kind)
	}
	yields := &yielding{Writer: live}
	return &Planner{
		Kinds: all, Options: options, Snapshot: seen, live: live, kinds: known, hidden: hidden, yields: yields,
		store:    revision.NewStore(seen, live, yields, time.Now, known, options.RevisionsPerHour).WithoutNewKeys(),
		triggers: newTriggers(options.rolloutOptions, live, live),
		accounts: newAccounts(live, time.Now),
	}, nil
}

// yielding leaves the notes and owners of a revision that exists to the controller where the user may not write them. Guards let
// nobody else (rule 17), and who may change a workload may have no right on ConfigMaps; neither is to keep them from rolling
// back. The controller adds what is missing when it sees the pin.
type yielding struct {
	client.Writer
	refusals []error
}

func (y *yielding) Patch(ctx context.Context, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
	err := y.Writer.Patch(ctx, obj, patch, options...)
	if !apierrors.IsForbidden(err) {
		return err
	}
	// Where there are guards, there is a controller.
	if !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
		y.refusals = append(y.refusals, err)
	}
	return nil
}

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
	// Warnings are what the controller would warn of: reason and note.
	Warnings []Warning
	// seen is what all this was made of.
	seen observed
}

// String gives the workload as kubectl takes it: "deployment/web".
func (l Look) String() string { return l.Kind.Resource() + "/" + l.Workload.GetName() }

// Rotates reports whether a source that the workload follows has the policy rotate.
func (l Look) Rotates(source pin.Source) bool { return l.seen.rotating[source] }

// Roller is a workload whose controller rolls out a template: its own, or that of the workload that it refers to.
type Roller struct {
	Kind   workload.Kind
	Object client.Object
}

// TooComplex is the reason of the Warning of a template whose pins stay, since admission could not resolve more.
const TooComplex = notice.TooManyReferences

// Warning is a condition that the user should know of; Notice says that nothing is wrong, somebody asked for it to be so.
type Warning struct {
	Reason, Note string
	Notice       bool
}

// Look plans for one workload of the snapshot. With advance, as if its pins might move now whatever confrev.io/advance says.
func (p *Planner) Look(ctx context.Context, kind workload.Kind, obj client.Object, advance bool) (Look, error) {
	r := p.engine(kind)
	look := Look{Kind: kind, Workload: obj, Hidden: p.hidden}
	seen, want, err := r.lookAndPlan(ctx, obj, view{
		reader: p.Snapshot, stays: func(a optin.Advance) bool { return !advance && a.Blocks(false) },
	})
	if err != nil {
		return look, fmt.Errorf("look at %s %s: %w", kind.Resource(), client.ObjectKeyFromObject(obj), err)
	}
	// As the controller does with what the webhook left of a request (rule 21.3).
	if want, err = r.endHolds(ctx, obj, nil, &seen, want); err != nil {
		return look, err
	}
	look.Asked, look.Follows, look.Template, look.Sources = seen.asked, seen.follows(), seen.pins.Pins, seen.sources
	look.Pins, look.Hashes, look.RolledOut, look.seen = want.pins, want.hashes, seen.pins.Holders, seen
	// A template that is none has been warned of.
	if seen.template != nil {
		if look.Uses, err = kind.Uses(obj); err != nil {
			return look, err
		}
	}
	for _, w := range slices.Concat(seen.warnings, warnings(want.pins, true), warnings(want.hashes, false)) {
		if w.Reason != notice.KindNotEnabled || !p.hidden {
			look.Warnings = append(look.Warnings, Warning{w.Reason, w.Text, w.Normal})
		}
	}
	return look, p.findHolders(ctx, &look)
}

// findHolders finds who rolls the template out, and their holders.
func (p *Planner) findHolders(ctx context.Context, look *Look) error {
	referring, err := index.Referring(ctx, p.Snapshot, p.kinds, look.Kind, look.Workload)
	if err != nil {
		return err
	}
	for _, obj := range referring {
		i := slices.IndexFunc(p.Kinds, func(k workload.Kind) bool { return k.GVK == workload.GVKOf(obj) })
		look.Rollers = append(look.Rollers, Roller{p.Kinds[i], obj})
	}
	if len(referring) == 0 {
		look.Rollers = []Roller{{look.Kind, look.Workload}}
	}
	for _, roller := range look.Rollers {
		found, err := index.List(ctx, p.Snapshot, roller.Kind.Holder.NewList(), roller.Object.GetNamespace(), index.ByController, string(roller.Object.GetUID()))
		if err != nil {
			return err
		}
		look.Holders = append(look.Holders, found...)
	}
	return nil
}

// Observe looks at a source of the snapshot and its revisions. It reads data only where no metadata tells.
func (p *Planner) Observe(ctx context.Context, namespace string, source pin.Source) (revision.Observation, error) {
	ref := revision.Ref{Kind: source.Kind, Namespace: namespace, Name: source.Name}
	meta := revision.Metadata(ref)
	err := p.Snapshot.Get(ctx, client.ObjectKeyFromObject(meta), meta)
	if apierrors.IsNotFound(err) {
		return p.store.Observe(ctx, ref, nil, "")
	}
	if err != nil {
		return revision.Observation{}, err
	}
	return p.store.Observe(ctx, ref, meta, "")
}

// Labelled returns the revisions of a source as their labels describe them, for who may not read the key of the namespace.
func (p *Planner) Labelled(namespace string, source pin.Source) []plan.Revision {
	var all []plan.Revision
	for _, obj := range p.Snapshot.Sources(source.Kind) {
		if obj.GetNamespace() == namespace && revision.IsRevision(obj) && revision.SourceOf(source.Kind, obj) == source {
			all = append(all, revision.Labelled(obj))
		}
	}
	return all
}

// Derived reports whether what looks like a revision is proven to be one that the controller may delete (rule 20). It reads its data.
func (p *Planner) Derived(ctx context.Context, kind pin.Kind, obj client.Object) (bool, error) {
	meta := revision.Metadata(revision.Ref{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()})
	if err := p.Snapshot.Get(ctx, client.ObjectKeyFromObject(meta), meta); err != nil {
		return false, err
	}
	return p.store.Derived(ctx, meta)
}

// Pods gives the metadata of a looked-at workload's pods that have not ended and are not ending (Snapshot.TakePods).
func (p *Planner) Pods(look Look) ([]client.Object, error) {
	var pods []client.Object
	owners := slices.Clone(look.Holders)
	for _, roller := range look.Rollers {
		owners = append(owners, roller.Object)
	}
	for _, owner := range owners {
		found, err := p.Snapshot.Indexed(snapshot.Pod, index.ByController, string(owner.GetUID()))
		if err != nil {
			return nil, err
		}
		pods = append(pods, found...)
	}
	return slices.DeleteFunc(pods, func(pod client.Object) bool { return pod.GetDeletionTimestamp() != nil }), nil
}

// Workloads gives the workloads of the snapshot that have templates of their own and that confrev does not keep out of, not
// looked at yet.
func (p *Planner) Workloads() []Look {
	var looks []Look
	for _, kind := range p.Kinds {
		for _, obj := range p.Snapshot.Objects(kind.GVK) {
			if _, _, refers := kind.WorkloadRef(obj); !refers && !p.Options.excluded(obj.GetNamespace()) {
				looks = append(looks, Look{Kind: kind, Workload: obj})
			}
		}
	}
	return looks
}

// UsersOf gives the workloads of the snapshot to which a source may matter, not looked at yet.
func (p *Planner) UsersOf(ctx context.Context, namespace string, source pin.Source) ([]Look, error) {
	var looks []Look
	for _, kind := range p.Kinds {
		for _, value := range []string{source.String(), index.AnyOf(source.Kind)} {
			found, err := index.List(ctx, p.Snapshot, kind.NewList(), namespace, index.BySource, value)
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
		found, err := index.List(ctx, p.Snapshot, kind.NewList(), namespace, index.ByPin, revision.String())
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	for _, holder := range p.kinds.Holders() {
		found, err := index.List(ctx, p.Snapshot, holder.NewList(), namespace, index.ByPin, revision.String())
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// Workload finds a workload of the snapshot; nil when there is none.
func (p *Planner) Workload(kind workload.Kind, name types.NamespacedName) client.Object {
	found, err := p.Snapshot.Indexed(kind.GVK, snapshot.ByName, name.String())
	if err != nil || len(found) == 0 {
		return nil
	}
	return found[0]
}

func (p *Planner) engine(kind workload.Kind) *engine {
	return &engine{
		kind: kind, kinds: p.kinds, options: p.Options.rolloutOptions, client: p.Snapshot, live: p.live, whole: p.Snapshot, store: p.store, triggers: p.triggers,
		accounts: p.accounts, now: time.Now,
	}
}
