package view

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/account"
	"confrev.io/confrev/internal/fleet"
	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/operator"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/snapshot"
	"confrev.io/confrev/internal/trigger"
	"confrev.io/confrev/internal/workload"
)

// Planner makes the plans that the controller would make, from a snapshot. It reads with the user's rights, and writes only in Prepare
// and Write of a move, with the same rights.
type Planner struct {
	Kinds    []workload.Kind
	Options  operator.Options
	Snapshot *snapshot.Snapshot
	live     client.Client
	store    *revision.Store
	kinds    *workload.Kinds
	triggers *trigger.Reader
	accounts *account.Accounts
	// hidden is true when Secrets are handled, but the user may not see them.
	hidden bool
	yields *revision.Yielding
	// fleet has the workloads of all kinds; nil where the snapshot is of some kinds only, so that no turns are known.
	fleet *fleet.Fleet
}

// NewPlanner takes a snapshot of a namespace, or of all when it is empty, to plan with. live reads and writes without a cache.
func NewPlanner(ctx context.Context, live client.Client, options operator.Options, namespace string) (*Planner, error) {
	p, err := NewPlannerOf(ctx, live, options, namespace, slices.Concat(workload.Standard(), options.Kinds))
	if err != nil {
		return nil, err
	}
	p.fleet = fleet.OfSnapshot(p.Snapshot, time.Now)
	p.fleet.Configure(p.Options.Defaults(), p.live)
	if p.Options.Analysis {
		p.fleet.ReadAnalyses(p.live)
	}
	for _, kind := range p.Kinds {
		p.fleet.Add(p.engine(kind))
	}
	return p, nil
}

// NewPlannerOf takes a snapshot of only some kinds, so that a user needs no right to list the others.
func NewPlannerOf(ctx context.Context, live client.Client, options operator.Options, namespace string, all []workload.Kind) (*Planner, error) {
	// The limit is for controllers that keep writing a source, not for people.
	options.RevisionsPerHour = max(options.RevisionsPerHour, 1<<20)
	seen, err := snapshot.Take(ctx, live, all, options.SourceKinds(), options.Defaults(), namespace)
	if err != nil {
		return nil, err
	}
	// A user who may not list Secrets still sees everything else.
	hidden := options.Secrets && seen.Refused(revision.GVK(pin.Secret)) != nil
	options.Secrets = options.Secrets && !hidden
	known := &workload.Kinds{}
	for _, kind := range all {
		known.Add(kind)
	}
	yields := &revision.Yielding{Writer: live}
	return &Planner{
		Kinds: all, Options: options, Snapshot: seen, live: live, kinds: known, hidden: hidden, yields: yields,
		store:    revision.NewStore(seen, live, yields, time.Now, known, options.RevisionsPerHour).AsUser(),
		triggers: trigger.New(options.Triggers(), live, live),
		accounts: account.New(live, time.Now),
	}, nil
}

// Assess plans for one workload of the snapshot.
func (p *Planner) Assess(ctx context.Context, kind workload.Kind, obj client.Object) (rollout.Assessment, error) {
	r := p.engine(kind)
	look, err := r.Assess(ctx, obj, nil)
	if err != nil {
		err = fmt.Errorf("look at %s %s: %w", kind.Resource(), client.ObjectKeyFromObject(obj), err)
	} else {
		err = r.Describe(ctx, &look)
	}
	if look.Hidden = p.hidden; p.hidden {
		look.Warnings = slices.DeleteFunc(look.Warnings, func(w notice.Notice) bool { return w.Reason == notice.KindNotEnabled })
	}
	return look, err
}

// Move moves pins and hashes of a workload; see Engine.Move.
func (p *Planner) Move(look rollout.Assessment, moves ...plan.Decision) rollout.Move {
	return p.engine(look.Kind).Move(look, moves...)
}

// Yielded returns the refusals of what was left to the controller: to note on revisions that they are used.
func (p *Planner) Yielded() []error { return p.yields.Refusals }

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

// Labelled returns the revisions of a source as their labels describe them, for anyone who may not read the key of the namespace.
func (p *Planner) Labelled(namespace string, source pin.Source) []plan.Revision {
	var all []plan.Revision
	for _, obj := range p.Snapshot.Sources(source.Kind) {
		if obj.GetNamespace() == namespace && revision.IsRevision(obj) && revision.SourceOf(source.Kind, obj) == source {
			all = append(all, revision.Labelled(obj))
		}
	}
	return all
}

// Derived reports whether what looks like a revision in the snapshot is proven to be one that the controller may delete (rule 20). It reads
// its data.
func (p *Planner) Derived(ctx context.Context, obj client.Object) (bool, error) {
	return p.store.Derived(ctx, obj.(*metav1.PartialObjectMetadata))
}

// Pods returns the metadata of a looked-at workload's pods that have not ended and are not ending (Snapshot.TakePods).
func (p *Planner) Pods(look rollout.Assessment) ([]client.Object, error) {
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

// Workloads returns the workloads of the snapshot that have templates of their own and that confrev does not keep out of, not
// looked at yet.
func (p *Planner) Workloads() []rollout.Assessment {
	var looks []rollout.Assessment
	for _, kind := range p.Kinds {
		for _, obj := range p.Snapshot.Objects(kind.GVK) {
			if _, _, refers := kind.WorkloadRef(obj); !refers && !p.Options.Excluded(obj.GetNamespace()) {
				looks = append(looks, rollout.Assessment{Kind: kind, Workload: obj})
			}
		}
	}
	return looks
}

// UsersOf returns the workloads of the snapshot to which a source may matter, not looked at yet.
func (p *Planner) UsersOf(ctx context.Context, namespace string, source pin.Source) ([]rollout.Assessment, error) {
	var looks []rollout.Assessment
	for _, kind := range p.Kinds {
		for _, value := range []string{source.String(), index.AnyOf(source.Kind)} {
			found, err := index.List(ctx, p.Snapshot, kind.NewList(), namespace, index.BySource, value)
			if err != nil {
				return nil, err
			}
			for _, obj := range found {
				looks = append(looks, rollout.Assessment{Kind: kind, Workload: obj})
			}
		}
	}
	return looks, nil
}

// PinnersOf returns the holders and workloads whose templates pin a revision.
func (p *Planner) PinnersOf(ctx context.Context, namespace string, revision pin.Source) ([]client.Object, error) {
	var lists []client.ObjectList
	for _, kind := range p.Kinds {
		lists = append(lists, kind.NewList())
	}
	for _, holder := range p.kinds.Holders() {
		lists = append(lists, holder.NewList())
	}
	var all []client.Object
	for _, list := range lists {
		found, err := index.List(ctx, p.Snapshot, list, namespace, index.ByPin, revision.String())
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// Workload finds a workload of the snapshot; nil when there is none.
func (p *Planner) Workload(kind workload.Kind, name client.ObjectKey) client.Object {
	found, err := p.Snapshot.Indexed(kind.GVK, snapshot.ByName, name.String())
	if err != nil || len(found) == 0 {
		return nil
	}
	return found[0]
}

func (p *Planner) engine(kind workload.Kind) *rollout.Engine {
	e := &rollout.Engine{
		Kind: kind, Kinds: p.kinds, Options: p.Options.Options, Client: p.Snapshot, Live: p.live, Whole: p.Snapshot, Store: p.store, Triggers: p.triggers,
		Accounts: p.accounts, Now: time.Now,
	}
	if e.Others = (fleet.Stops{Client: p.Snapshot}); p.fleet != nil {
		e.Others = p.fleet
	}
	return e
}
