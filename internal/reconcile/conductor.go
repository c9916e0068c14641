package reconcile

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"confrev.io/confrev/internal/fleet"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/workload"
)

// Conductor leads changes through their waves: it records that a wave has passed, and then wakes the workloads that may go next (rule 37).
// It works only while a change to a source that spreads is under way.
type Conductor struct {
	Fleet *fleet.Fleet
	Store *revision.Store
	// Wake makes the loop over a kind of workloads look at one of them.
	Wake    func(fleet.Workload)
	Notices notice.Sink
	States  *States
	Now     func() time.Time
	// Evictions evicts pods; nil if confrev may not.
	Evictions client.SubResourceWriter

	// Analyses asks the API server about analyses; nil if confrev may not.
	Analyses Analyses

	queue    asked[revision.Ref]
	outcomes outcomes[revision.Ref]
	// lost has which workloads were told that they cannot be rolled back, and from what. One that is forgotten is told again.
	lost *lru.Cache
	// woken has which members were woken for which change, so that each event of one does not wake all others again.
	mu    sync.Mutex
	woken map[revision.Ref]woken
}

// woken are the members that were woken for a change, and when.
type woken struct {
	current pin.Pin
	at      map[string]time.Time
}

const (
	// gatherMembers is how long events of members are gathered before all are looked at.
	gatherMembers = 100 * time.Millisecond
	// lookAtSpread is how often to look at a change that is under way although nothing has happened: what a Job does, for example, is no
	// event of its CronJob.
	lookAtSpread = 10 * time.Second
	// lookAtJobs is how often to look for a CronJob's first Job with a change that no one else waits for.
	lookAtJobs = 30 * time.Second
	// maxLost bounds the memory for workloads that cannot be rolled back.
	maxLost = 1000
	// wakeAgain is how long a member may take to go after it was woken.
	wakeAgain = 5 * time.Second
)

// SetUp adds the loop to a manager.
func (c *Conductor) SetUp(manager ctrl.Manager) error {
	c.woken, c.lost = map[revision.Ref]woken{}, lru.New(maxLost)
	return builder.TypedControllerManagedBy[revision.Ref](manager).
		Named("spread").
		// It replaces all options that were given before.
		WithOptions(options[revision.Ref](1)).
		WithLogConstructor(func(ref *revision.Ref) logr.Logger {
			logger := manager.GetLogger().WithValues("controller", "spread")
			if ref != nil {
				logger = logger.WithValues("namespace", ref.Namespace, "source", ref.Text())
			}
			return logger
		}).
		WatchesRawSource(source.TypedFunc[revision.Ref](c.queue.start)).
		Complete(untilStopped(c))
}

// Look makes the Conductor look at the changes soon.
func (c *Conductor) Look(changes ...rollout.Spreading) {
	for _, change := range changes {
		c.look(change.Source)
	}
}

// moved makes the Conductor look at the changes that a workload is in the middle of, if its controller has come further with them.
func (c *Conductor) moved(before, after client.Object, health func(client.Object) workload.Health) {
	if after.GetAnnotations()[keys.Advanced] != before.GetAnnotations()[keys.Advanced] || health(before) != health(after) {
		c.lookAtAdvance(after)
	}
}

// lookAtAdvance makes the Conductor look at the changes that a workload has taken last. The process before this one may have ended after it
// recorded that one of them is stopped, and before it rolled the workload back.
func (c *Conductor) lookAtAdvance(of client.Object) {
	advance, _ := spread.ParseAdvance(of.GetAnnotations()[keys.Advanced])
	for source := range advance.To {
		c.look(revision.Ref{Kind: source.Kind, Namespace: of.GetNamespace(), Name: source.Name})
	}
}

func (c *Conductor) look(source revision.Ref) {
	c.queue.add(source, max(gatherMembers, c.Fleet.Pause(source)))
}

// Reconcile looks at how far a change to one source has come.
func (c *Conductor) Reconcile(ctx context.Context, source revision.Ref) (reconcile.Result, error) {
	wait, err := c.conduct(ctx, source)
	return c.outcomes.of(ctx, source, wait, err)
}

func (c *Conductor) conduct(ctx context.Context, source revision.Ref) (time.Duration, error) {
	s, spreads, err := c.Fleet.Survey(ctx, source)
	if err != nil || !spreads {
		c.forget(source)
		return 0, err
	}
	if s.Behind {
		// It may have vouched before it was listed as a stage.
		c.look(revision.Ref{Kind: source.Kind, Namespace: s.Settings.Follows(), Name: source.Name})
	}
	for name, reason := range s.Reasons() {
		member := s.Workloads[name]
		c.States.waits(stated{member.Engine.Kind.Resource(), member.Name}, reason)
	}
	// What follows from a wave that has passed must not be seen before it is recorded: the next leader would decide again.
	if recorded, err := c.record(ctx, s); err != nil || !recorded {
		return retrySoon, err
	}
	stuck := false
	if s.Stops() > 0 {
		var notEvicted error
		err := c.undo(ctx, s)
		if stuck, notEvicted = c.evict(ctx, s); err != nil || notEvicted != nil {
			return 0, errors.Join(err, notEvicted)
		}
	}
	// An analysis that cannot be made must not keep the others from going.
	c.wake(s, s.Next())
	awaited, err := c.analyse(ctx, s)
	if err != nil {
		return 0, err
	}
	if stuck || awaited {
		return c.Fleet.PodsAgain(s), nil
	}
	return c.next(s), nil
}

// next returns when to look again if nothing happens; 0 if the change is complete.
func (c *Conductor) next(s *fleet.Survey) time.Duration {
	if s.Members() > 0 && s.Done() && s.AwaitsJobs() {
		return lookAtJobs
	}
	if s.Done() {
		c.forget(s.Source)
		return 0
	}
	soonest := lookAtSpread
	if wakes := s.Wakes(); !wakes.IsZero() {
		soonest = min(max(wakes.Sub(c.Now()), retrySoon), soonest)
	}
	if c.Fleet.Examines(s) {
		soonest = min(c.Fleet.PodsAgain(s), soonest)
	}
	return soonest
}

// record writes on the current revision how many waves have passed, and whether the change is stopped because members failed. It returns
// false if it wrote anything from which something follows, so that the members must be looked at again.
func (c *Conductor) record(ctx context.Context, s *fleet.Survey) (bool, error) {
	if s.Revision == "" || !s.Settings.Active() {
		return true, nil
	}
	wanted := s.Record.With(s.Spread, c.Now())
	wanted.Revision, wanted.Number = string(s.Revision), s.Current.Number
	wanted, failures := wanted.WithFailures(s.Settings, s.Failures(s.Record.Failed), s.Stops())
	stops := wanted.Stops > s.Record.Stops
	wanted.Staged = wanted.Staged || s.Settings.Follows() != "" && !s.Behind
	vouches := s.Settings.Leads && s.Vouches()
	if vouches {
		wanted.Complete, wanted.Version = true, optin.Version(s.Meta.Annotations)
	}
	if wanted.String() == s.Record.String() || !wanted.Decides() {
		// Nothing has been decided since.
		return true, nil
	}
	ref := revision.Ref{Kind: s.Source.Kind, Namespace: s.Source.Namespace, Name: s.Current.Revision}
	// Who deletes the workloads that have the change must not delete with its revision that it is stopped, or that it was vouched for.
	outlasts := stops || wanted.Complete && !s.Record.Complete
	if err := c.Store.SetPropagation(ctx, ref, wanted, outlasts); err != nil {
		return false, err
	}
	c.Fleet.Recorded(s, wanted)
	c.report(ctx, s, failures)
	if vouches {
		log.FromContext(ctx).Info("every workload has vouched for a change, for which other namespaces may wait", "revision", s.Current.String())
		for _, follower := range c.Fleet.Followers(s.Source) {
			c.look(follower)
		}
	}
	if stops {
		log.FromContext(ctx).Info("a change was stopped, because workloads failed with it", "revision", s.Current.String(), "failed", len(failures))
		// They wait for something else now, and say so.
		for _, m := range s.Waits() {
			c.Wake(s.Workloads[m.Name])
		}
	}
	passes := s.Passes()
	if passes > s.Open {
		log.FromContext(ctx).Info("a wave has passed", "revision", s.Current.String(), "wave", s.Left+passes, "of", s.Left+len(s.Waves))
	}
	return !stops && passes == s.Open, nil
}

// wake wakes those members that may go and were not woken lately.
func (c *Conductor) wake(s *fleet.Survey, going []spread.Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.woken[s.Source]
	if known.current != s.Current || known.at == nil {
		known = woken{s.Current, map[string]time.Time{}}
		c.woken[s.Source] = known
	}
	for _, m := range going {
		if now := c.Now(); now.Sub(known.at[m.Name]) > wakeAgain {
			known.at[m.Name] = now
			c.Wake(s.Workloads[m.Name])
		}
	}
}

func (c *Conductor) forget(source revision.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.woken, source)
}

// asked are requests from outside of a controller, for its queue, which exists once the controller runs.
type asked[request comparable] struct {
	mu     sync.Mutex
	queue  workqueue.TypedRateLimitingInterface[request]
	before []request
}

// start takes the queue of the controller, and adds what was asked for before.
func (a *asked[request]) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[request]) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue = queue
	for _, r := range a.before {
		queue.Add(r)
	}
	a.before = nil
	return nil
}

func (a *asked[request]) add(r request, after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.queue == nil {
		a.before = append(a.before, r)
		return
	}
	a.queue.AddAfter(r, after)
}
