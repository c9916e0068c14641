// Package reconcile watches workloads, sources and holders, and runs the two reconcilers: one pins revisions in
// workloads, the other keeps the revisions (docs/reconcile.md has the rules).
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"confrev.io/confrev/internal/gate"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
)

// Workloads reconciles the workloads of one kind: it asks rollout for the steps, and decides when each may be taken.
type Workloads struct {
	*rollout.Engine
	// RolloutsPerHour is how often changes to sources may roll out one workload, Workers how many workloads are worked on at a time.
	RolloutsPerHour, Workers int
	Notices                  notice.Sink
	Gate                     *gate.Gate
	// States are those of the workloads of all kinds.
	States *States
	// Conductor leads changes through the workloads of all kinds.
	Conductor *Conductor
	// Backlog counts those of all kinds that wait for their turn.
	Backlog *Backlog
	// Triggers caches the objects of other kinds on which workloads restart. Nothing waits until it has caught up.
	Triggers cache.Cache

	memory     memories
	outcomes   outcomes[reconcile.Request]
	woken      asked[reconcile.Request]
	cache      cache.Cache
	controller controller.Controller
	// followed are the kinds of other objects that are watched, since some workload restarts on them, and since when.
	mu       sync.Mutex
	followed map[schema.GroupVersionKind]time.Time
}

// retryRefused is how long to wait after the API server refused something, such as a copy beyond a quota.
const retryRefused = time.Minute

// Reconcile brings one workload's pins to what the plan says.
func (r *Workloads) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	wait, err := r.reconcileNamed(ctx, request)
	return r.outcomes.of(ctx, request, wait, err)
}

func (r *Workloads) reconcileNamed(ctx context.Context, request reconcile.Request) (time.Duration, error) {
	obj := r.Kind.New()
	err := r.Client.Get(ctx, request.NamespacedName, obj)
	if apierrors.IsNotFound(err) {
		r.memory.forget(request.NamespacedName)
		r.States.set(stated{r.Kind.Resource(), request.NamespacedName}, standing{})
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if left, err := r.Options.LeftAlone(ctx, r.Client, r.Live, request.Namespace); left || err != nil || obj.GetDeletionTimestamp() != nil {
		return 0, err
	}
	known := r.memory.get(request.NamespacedName, obj.GetUID())
	if !known.introduced {
		known.introduced = true
		r.Conductor.lookAtAdvance(obj)
	}
	if obj.GetGeneration() < known.generation {
		// The cache does not show our own last write yet; its event is on the way.
		return 0, nil
	}
	if named, name, ok := r.Kind.WorkloadRef(obj); ok {
		// The workload that it names has a state of its own.
		r.States.set(stated{r.Kind.Resource(), request.NamespacedName}, standing{})
		said, err := r.misdirected(ctx, obj, named, name)
		r.warn(ctx, obj, known, said)
		return 0, err
	}
	defer r.Backlog.work()()
	return r.reconcile(ctx, obj, known)
}

// untilStopped returns a reconciler that fails no more once it is stopped: what it was doing is unfinished then, for the next leader, and no error that
// anyone should look at.
func untilStopped[T comparable](r reconcile.TypedReconciler[T]) reconcile.TypedReconciler[T] {
	return reconcile.TypedFunc[T](func(ctx context.Context, request T) (reconcile.Result, error) {
		result, err := r.Reconcile(ctx, request)
		if err == nil || ctx.Err() == nil {
			return result, err
		}
		log.FromContext(ctx).V(1).Info("unfinished when confrev stopped", "because", err.Error())
		return reconcile.Result{}, nil
	})
}

func (r *Workloads) reconcile(ctx context.Context, obj client.Object, known *memory) (time.Duration, error) {
	started := r.Now()
	look, err := r.Assess(ctx, obj, known.wrote)
	if look.Shown {
		known.wrote = nil
	}
	err = errors.Join(err, r.followTriggers(ctx, &look))
	known.follow(r.Kind.PinsText(obj))
	metricPlan.Observe(r.Now().Sub(started).Seconds())
	if (!look.Resumes() || err != nil) && rollout.PausedByUs(r.Kind, obj) && r.pauseLeft(obj) <= 0 {
		return 0, errors.Join(err, r.resumeWithout(ctx, look))
	}
	var wait time.Duration
	if err != nil {
		// A plan from incomplete facts could cause one rollout now and another one later.
		r.warn(ctx, obj, known, look.Warnings)
	} else {
		wait, err = r.act(ctx, look, known)
	}
	return r.boundPause(ctx, look, known, wait, err)
}

// act does what was decided about a workload, unless it has to wait.
func (r *Workloads) act(ctx context.Context, look rollout.Assessment, known *memory) (time.Duration, error) {
	obj, said := look.Workload, look.Warnings
	r.States.set(stated{r.Kind.Resource(), client.ObjectKeyFromObject(obj)}, standingOf(look))
	r.Conductor.Look(look.Spreading()...)
	// Labels and notes are for later. If they cannot be written, pins still can.
	later := r.Refresh(ctx, look)
	if look.Paused() {
		said = append(said, r.paused(look))
	}
	if wait, problem := r.obstacle(ctx, look, known); wait > 0 {
		if len(problem) > 0 {
			r.giveBack(ctx, look, rollout.Written{}, nil)
		}
		r.warn(ctx, obj, known, append(said, problem...))
		return wait, later
	}
	limited := r.Limit(ctx, &look)
	rest, refused, err := r.write(ctx, &look, known)
	if wait := known.deniedOnce(err); wait > 0 {
		log.FromContext(ctx).V(1).Info("looking again", "because", err.Error())
		return wait, later
	}
	refused, err = sayTerminal(slices.Concat(limited, refused), err)
	r.warn(ctx, obj, known, append(said, refused...))
	if len(refused) > 0 || look.Retry {
		return min(cmp.Or(rest, r.untilOpen(look), retryRefused), retryRefused), errors.Join(later, err)
	}
	return r.untilOpen(look), errors.Join(later, err)
}

// Wake makes the loop look at a workload.
func (r *Workloads) Wake(name types.NamespacedName) {
	r.woken.add(reconcile.Request{NamespacedName: name}, 0)
}

// maxSleep is how long to wait at most before looking again at a workload whose wait ends at a certain time: clocks are adjusted.
const maxSleep = 15 * time.Minute

// untilOpen returns how long to wait until a source may advance that waits; 0 if none of them does so by itself.
func (r *Workloads) untilOpen(look rollout.Assessment) time.Duration {
	opens := look.Opens()
	if opens.IsZero() {
		return 0
	}
	return min(max(opens.Sub(r.Now()), retrySoon), maxSleep)
}

// obstacle returns how long to wait before a change may be written, and the warning about it, if there is one.
func (r *Workloads) obstacle(ctx context.Context, look rollout.Assessment, known *memory) (time.Duration, []notice.Notice) {
	change := look.Change()
	if wait := known.settle(change, look.Config.Settle, r.Now()); wait > 0 {
		return wait, nil
	}
	wait, problem := r.obstructed(ctx, look.Workload, change, known)
	if problem.Reason == "" {
		return wait, nil
	}
	return wait, []notice.Notice{problem}
}

// obstructed returns how long something other than settling keeps a change from being written, and the warning about it.
func (r *Workloads) obstructed(ctx context.Context, obj client.Object, change rollout.Change, known *memory) (time.Duration, notice.Notice) {
	if change.Text == "" {
		return 0, notice.Notice{}
	}
	problem := r.Gate.Problem()
	if errors.Is(problem, gate.ErrUnchecked) && change.NeedsPolicies {
		// An event would say so, and the recorder would take one that says what is wrong for its repetition.
		return retrySoon, notice.Notice{}
	}
	if problem != nil && change.NeedsPolicies {
		// A pin that nothing resolves would only look as if it kept the promise.
		return r.Gate.Retry(), notice.Notice{Reason: notice.PoliciesNotReady, Text: problem.Error()}
	}
	times := plan.MaxReverts
	if change.OnlyInjects {
		times = plan.MaxReapplied
	}
	if wait := known.reverts.Backoff(change.Text, times, r.Now()); wait > 0 {
		if known.reverts.Lost {
			return wait, r.NotKept()
		}
		return wait, notice.Notice{Reason: notice.Reverted, Text: r.reverter(ctx, obj, times)}
	}
	return r.overspent(obj, change, known)
}

// overspent returns how long a workload must wait before its sources may roll it out again (rule 11), and what to say. Many
// sources, each within its own limit, would push every image that an undo could bring back out of the workload's history. What
// is urgent does not wait.
func (r *Workloads) overspent(obj client.Object, change rollout.Change, known *memory) (time.Duration, notice.Notice) {
	sources := change.Advances
	if len(sources) == 0 || change.Urgent {
		return 0, notice.Notice{}
	}
	wait := known.rollouts.wait(r.RolloutsPerHour, r.Now())
	if wait == 0 {
		return 0, notice.Notice{}
	}
	names := make([]string, 0, len(sources))
	for _, source := range sources {
		names = append(names, source.String())
	}
	return wait, notice.Notice{Reason: revision.TooFrequent, Text: fmt.Sprintf(
		"%s/%s was rolled out %d times within an hour for changes to its sources, which is as often as it may be; %s waits",
		r.Kind.Resource(), obj.GetName(), r.RolloutsPerHour, strings.Join(names, ", "))}
}

// reverter returns the field manager that keeps undoing what confrev writes on a workload, as far as its managed fields tell.
func (r *Workloads) reverter(ctx context.Context, obj client.Object, times int) string {
	other := "another controller"
	live := r.Kind.New()
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(obj), live); err == nil {
		if latest := latestManagers(live.GetManagedFields()); len(latest) > 0 {
			other += " (the last one to write was field manager " + strings.Join(latest, " or ") + ")"
		}
	}
	return fmt.Sprintf("%s undid confrev's change of the pod template %d times in a row, so confrev leaves it alone for %s or until a "+
		"source changes. Let the owner of this %s keep the pod template's annotations, or opt out with %s=none",
		other, times, plan.RetryReverted, r.Kind.Resource(), keys.Track)
}

// latestManagers returns the field managers, other than confrev, that wrote an object last. There may be several, since the API server
// records the time of a write in seconds.
func latestManagers(entries []metav1.ManagedFieldsEntry) []string {
	var latest time.Time
	var managers []string
	for _, entry := range entries {
		if entry.Manager == keys.FieldManager || entry.Subresource != "" || entry.Time == nil || entry.Time.Time.Before(latest) {
			continue
		}
		if entry.Time.After(latest) {
			latest, managers = entry.Time.Time, nil
		}
		managers = append(managers, strconv.Quote(entry.Manager))
	}
	return managers
}

// write creates the revisions that the change needs, then writes template and notes in one patch. It returns a warning for everything that
// was refused, and how long what is left of the change has to wait, if it does.
func (r *Workloads) write(ctx context.Context, look *rollout.Assessment, known *memory) (rest time.Duration, refused []notice.Notice, err error) {
	var written rollout.Written
	made, rest, refused, err := r.prepare(ctx, look, known)
	// Events go after the pin: on a small control plane, one at the same time makes it wait.
	defer func() {
		r.giveBack(ctx, *look, written, err)
		for _, n := range made {
			r.Notices.Send(ctx, n)
		}
	}()
	if err != nil {
		return 0, nil, err
	}
	if rest > 0 {
		return rest, refused, nil
	}
	written, err = r.Write(ctx, look)
	switch {
	case err != nil:
		return 0, refused, err
	case written.Pruned:
		// Otherwise every reconciliation would write it again.
		known.reverts.Pruned(written.Change.Text, r.Now())
		return 0, append(refused, r.NotKept()), nil
	case written.Gave != nil || written.Restarted:
		metricLatency.Observe(r.Now().Sub(known.settling.Since()).Seconds())
		known.wroteNow(look.Workload.GetGeneration(), written, r.Now())
	}
	return 0, refused, nil
}

// prepare creates the revisions that the change needs. A first pin may be refused each time, for example because of a quota. Then the rest is no
// longer urgent, and waits as it would alone (rules 2 and 11).
func (r *Workloads) prepare(ctx context.Context, look *rollout.Assessment, known *memory) (made []notice.Notice, rest time.Duration, refused []notice.Notice, err error) {
	urgent := look.Change().Urgent
	made, refused, err = r.Prepare(ctx, look)
	if err != nil || !urgent || look.Change().Urgent {
		return made, 0, refused, err
	}
	if wait, problem := r.obstacle(ctx, *look, known); wait > 0 {
		return made, wait, append(refused, problem...), nil
	}
	more, also, err := r.Prepare(ctx, look)
	return append(made, more...), 0, append(refused, also...), err
}

// warn sends those warnings about the workload that were not sent before.
func (r *Workloads) warn(ctx context.Context, obj client.Object, known *memory, all []notice.Notice) {
	for _, n := range known.reported.News(all) {
		n.Object, n.Kind = obj, r.Kind.Resource()
		r.Notices.Send(ctx, n)
	}
}

// sayTerminal turns an error that no retry would end into a warning.
func sayTerminal(said []notice.Notice, err error) ([]notice.Notice, error) {
	if terminal, ok := errors.AsType[*notice.TerminalError](err); ok {
		return append(said, terminal.Notice), nil
	}
	return said, err
}

// pauseLeft returns how much longer confrev's own pause of a workload may last. It counts from the workload's creation, so that a restart
// of confrev does not prolong it.
func (r *Workloads) pauseLeft(obj client.Object) time.Duration {
	return obj.GetCreationTimestamp().Add(r.Kind.MaxPause(obj)).Sub(r.Now())
}

// overdue is how much longer a pause lasts although what the workload waited for is there, if the pins cannot be written: that may be a
// conflict, or this process may have just started.
const overdue = 10 * time.Second

// boundPause makes confrev's own pause of a workload end in time, whatever keeps its pins from being written (rule 7). It returns how long to
// wait before looking again, which is wait unless the pause ends sooner.
func (r *Workloads) boundPause(ctx context.Context, look rollout.Assessment, known *memory, wait time.Duration, err error) (time.Duration, error) {
	obj := look.Workload
	if !rollout.PausedByUs(r.Kind, obj) {
		known.overdue = time.Time{}
		return wait, err
	}
	left := r.pauseLeft(obj)
	if left <= 0 {
		if known.overdue.IsZero() {
			known.overdue = r.Now()
		}
		left = known.overdue.Add(overdue).Sub(r.Now())
	}
	if left <= 0 {
		return wait, errors.Join(err, r.resumeWithout(ctx, look))
	}
	if err != nil {
		// The queue waits longer after each error.
		r.woken.add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)}, left)
	}
	return min(cmp.Or(wait, left), left), err
}

// resumeWithout ends a pause that has reached its limit although a source is still missing or cannot be pinned (rule 7).
func (r *Workloads) resumeWithout(ctx context.Context, look rollout.Assessment) error {
	obj := look.Workload
	missing := obj.GetAnnotations()[keys.Paused]
	if len(look.Awaited) > 0 {
		missing = strings.Join(look.Awaited, ",")
	}
	if err := r.Resume(ctx, obj); err != nil {
		return err
	}
	r.Notices.Send(ctx, notice.Notice{Reason: notice.PauseEnded, Object: obj, Kind: r.Kind.Resource(), Text: fmt.Sprintf(
		"Resumed %s after its creation although %s cannot be pinned: pods that require what does not exist wait for it. Once it can be pinned, it "+
			"is, which is one more rollout", r.Kind.MaxPause(obj), missing)})
	return nil
}

func (r *Workloads) paused(look rollout.Assessment) notice.Notice {
	return notice.Notice{Reason: notice.Paused, Normal: true, Text: fmt.Sprintf(
		"Paused at its creation until %s can be pinned, for %s at most, so that its first %s is right already; resume it to continue without",
		strings.Join(look.Awaited, ", "), r.Kind.MaxPause(look.Workload), r.Kind.Holder.GVK.Kind)}
}
