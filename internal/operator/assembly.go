package operator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/fleet"
	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/reconcile"
	"confrev.io/confrev/internal/webhook"
	"confrev.io/confrev/internal/workload"
)

// assembly puts kinds of workloads to work: at the start those that the cluster serves, the others once it serves them.
type assembly struct {
	manager ctrl.Manager
	// namespace is the one whose workloads it is about; empty for all.
	namespace string
	options   Options
	kinds     *workload.Kinds
	workloads func(workload.Kind) *reconcile.Workloads
	revisions *reconcile.Revisions
	handler   *webhook.Workloads
	// mu guards running, to which kinds are added while workloads are woken.
	mu      sync.Mutex
	running []*reconcile.Workloads
	// waiting are the kinds that could not be put to work yet, problems what was last logged of them.
	waiting  []workload.Kind
	problems map[schema.GroupVersionKind]string
	// indexed has the indexes that were made.
	indexed map[string]bool
}

// lookForKinds is how often to look whether a kind is served by now; lookForKindsEach, where each of many namespaces looks.
const (
	lookForKinds     = 10 * time.Second
	lookForKindsEach = time.Minute
)

// NeedLeaderElection returns false: a replica that waits to lead has its caches ready.
func (*assembly) NeedLeaderElection() bool { return false }

// Start puts the waiting kinds to work as they come, until ctx ends.
func (a *assembly) Start(ctx context.Context) error {
	interval := lookForKinds
	if a.namespace != "" {
		interval = lookForKindsEach
	}
	for len(a.waiting) > 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
		if err := a.look(ctx); err != nil {
			log.FromContext(ctx).Error(err, "cannot look for kinds of workloads; trying again")
		}
	}
	return nil
}

// look puts those of the waiting kinds to work that can be.
func (a *assembly) look(ctx context.Context) error {
	var still []workload.Kind
	for i, kind := range a.waiting {
		problem, err := a.obstacle(ctx, kind)
		if err == nil && problem == "" {
			err = a.add(ctx, kind)
		}
		if err != nil {
			a.waiting = append(still, a.waiting[i:]...)
			return fmt.Errorf("put %s to work: %w", kind.GVK, err)
		}
		if problem != "" {
			still = append(still, kind)
		}
		a.report(ctx, kind, problem)
	}
	a.waiting = still
	return nil
}

// report logs what has become of a kind, once.
func (a *assembly) report(ctx context.Context, kind workload.Kind, problem string) {
	before := a.problems[kind.GVK]
	a.problems[kind.GVK] = problem
	switch problem {
	case before:
	case "":
		log.FromContext(ctx).Info("workloads of a kind are handled from now on", "kind", kind.GVK.String())
	default:
		log.FromContext(ctx).Info("workloads of a kind are not handled for now", "kind", kind.GVK.String(), "because", problem)
	}
}

// obstacle reports why a kind cannot be put to work now; empty when it can.
func (a *assembly) obstacle(ctx context.Context, kind workload.Kind) (string, error) {
	for _, gvk := range []schema.GroupVersionKind{kind.GVK, kind.Holder.GVK} {
		list := metadata.NewList(gvk)
		err := a.manager.GetAPIReader().List(ctx, list, client.Limit(1), client.InNamespace(a.namespace))
		switch {
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
			return fmt.Sprintf("the API server does not serve %s", gvk), nil
		case apierrors.IsForbidden(err):
			return fmt.Sprintf("confrev may not list %s: %v", gvk, err), nil
		case err != nil:
			return "", err
		}
	}
	return "", nil
}

func (a *assembly) add(ctx context.Context, kind workload.Kind) error {
	newHolder := !slices.Contains(a.kinds.Holders(), kind.Holder)
	if err := a.index(ctx, kind); err != nil {
		return err
	}
	// The revisions' reconciler must know the kind's workloads before it judges that no one uses a revision.
	a.kinds.Add(kind)
	added := a.workloads(kind)
	if err := added.SetUp(a.manager); err != nil {
		return fmt.Errorf("set up the reconciler of %ss: %w", kind.Resource(), err)
	}
	for _, other := range a.running {
		if kind.Refers {
			if err := other.Follow(kind); err != nil {
				return err
			}
		}
		if other.Kind.Refers {
			if err := added.Follow(other.Kind); err != nil {
				return err
			}
		}
	}
	a.mu.Lock()
	a.running = append(a.running, added)
	a.mu.Unlock()
	a.handler.Add(added.Engine)
	if err := a.revisions.WatchWorkloads(kind); err != nil || !newHolder {
		return err
	}
	return a.revisions.WatchHolders(kind.Holder, a.options.holders().cached(kind.Holder.New()))
}

// wake makes the loop over a workload's kind look at it.
func (a *assembly) wake(w fleet.Workload) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.IndexFunc(a.running, func(r *reconcile.Workloads) bool { return r.Kind == w.Engine.Kind }); i >= 0 {
		a.running[i].Wake(w.Name)
	}
}

// index makes the indexes of a kind of workloads and of its holders. What is there already, since an earlier attempt made
// it or since another kind shares it, stays.
func (a *assembly) index(ctx context.Context, kind workload.Kind) error {
	for _, i := range index.Of(kind, a.options.Defaults()) {
		if a.indexed[i.GVK.String()+" "+i.Field] {
			continue
		}
		if err := a.manager.GetFieldIndexer().IndexField(ctx, a.options.holders().cached(i.Object), i.Field, i.Func); err != nil {
			return fmt.Errorf("index %s by %s: %w", i.GVK, i.Field, err)
		}
		a.indexed[i.GVK.String()+" "+i.Field] = true
	}
	return nil
}
