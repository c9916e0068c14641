package reconcile

import (
	"context"
	"errors"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/fleet"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/spread"
)

// report sends a warning about each workload because of which the change was stopped.
func (c *Conductor) report(ctx context.Context, s *fleet.Survey, failures []spread.Failure) {
	why := map[string]string{}
	for _, m := range append(s.Has(), s.Apart...) {
		why[m.Name] = m.Why
	}
	for _, failure := range failures {
		name := failure.Member
		w := s.Workloads[name]
		obj := w.Engine.Kind.New()
		err := w.Engine.Client.Get(ctx, w.Name, obj)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "cannot say on a workload that a change failed", "workload", name)
			continue
		}
		n := notice.Warning(notice.ChangeFailed, s.Source.Source(), "%s failed: %s. No other workload gets it. %s. Correct %s; to continue anyway: kubectl confrev resume %s -n %s",
			s.Describe(), why[name], consequence(s, w), s.Source.Text(), s.Source.Text(), s.Source.Namespace)
		n.Object, n.Kind = obj, w.Engine.Kind.Resource()
		c.Notices.Send(ctx, n)
	}
}

// consequence returns a sentence about what becomes of a member that has failed.
func consequence(s *fleet.Survey, w fleet.Workload) string {
	switch {
	case s.Settings.OnFailure < spread.Undo:
		return "It stays here"
	case leavesUndo(w):
		return fmt.Sprintf("confrev leaves it to Argo Rollouts to go back here (kubectl argo rollouts abort %s -n %s)", w.Name.Name, w.Name.Namespace)
	}
	return "It is rolled back here, unless something else was deployed meanwhile"
}

// leavesUndo reports whether a workload's own controller aborts what fails: confrev does not roll it back.
func leavesUndo(w fleet.Workload) bool { return w.Engine.Kind.Refers }

// undo brings members back to what they had, as the setting says: those that failed, or all that have the change. The stop was recorded
// before, so a crash in between repeats nothing: what was brought back is held (rule 4), and no member any more.
func (c *Conductor) undo(ctx context.Context, s *fleet.Survey) error {
	if s.Settings.OnFailure < spread.Undo {
		return nil
	}
	var back []string
	for _, m := range s.Has() {
		// With other code, the content may not be to blame, and the deploy wins.
		if w := s.Workloads[m.Name]; (m.Stage == spread.Failed || s.Settings.OnFailure == spread.UndoAll) && w.Code && !leavesUndo(w) {
			back = append(back, m.Name)
		}
	}
	var errs []error
	stops := c.stopsOf(s, back)
	for _, name := range back {
		if err := c.undoOne(ctx, s, s.Workloads[name], stops); err != nil {
			errs = append(errs, fmt.Errorf("roll %s back: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// stopsOf returns a function that finds the number of the stop because of which a source is rolled back in some workloads: its latest one. A source that
// moved together with the one that is stopped may be about to be stopped too, since these failures count against each. All workloads that use it are
// looked at for that, once.
func (c *Conductor) stopsOf(s *fleet.Survey, back []string) func(context.Context, pin.Source) (int, error) {
	known := map[pin.Source]int{s.Source.Source(): s.Record.Stops}
	return func(ctx context.Context, source pin.Source) (int, error) {
		if stop, is := known[source]; is {
			return stop, nil
		}
		other, err := c.Fleet.Look(ctx, revision.Ref{Kind: source.Kind, Namespace: s.Source.Namespace, Name: source.Name})
		if err != nil {
			return 0, err
		}
		known[source] = other.StopWith(s.Source.Source(), back)
		return known[source], nil
	}
}

// undoOne brings a source back with all that moved together with it, in one write.
func (c *Conductor) undoOne(ctx context.Context, s *fleet.Survey, w fleet.Workload, stopOf func(context.Context, pin.Source) (int, error)) error {
	obj := w.Engine.Kind.New()
	if err := w.Engine.Client.Get(ctx, w.Name, obj); err != nil {
		return client.IgnoreNotFound(err)
	}
	look, err := w.Engine.Assess(ctx, obj, nil)
	if err != nil {
		return err
	}
	note, _ := spread.ParseAdvance(obj.GetAnnotations()[keys.Advanced])
	moves := movesBack(look, note, s.Source.Source())
	// Other code may have been deployed since the survey.
	if _, concerned := moves[s.Source.Source()]; !concerned || note.CodeOf(s.Source.Source()) != w.Engine.Kind.Facts(obj).Code {
		return nil
	}
	var all []plan.Decision
	stops := map[pin.Source]int{}
	for _, d := range moves {
		all = append(all, d)
		if stops[d.Source], err = stopOf(ctx, d.Source); err != nil {
			return err
		}
	}
	move := w.Engine.MoveBack(look, stops, all...)
	if err := move.Prepare(ctx); err != nil {
		return c.notUndone(ctx, s, w, obj, err)
	}
	_, err = move.Write(ctx)
	return c.notUndone(ctx, s, w, obj, err)
}

// notUndone warns, once, if a workload cannot be rolled back: because a revision is gone that it had before, which no retry would bring back, or because
// its change is denied. It returns any error but the former.
func (c *Conductor) notUndone(ctx context.Context, s *fleet.Survey, w fleet.Workload, obj client.Object, err error) error {
	var why string
	gone, isGone := revision.Gone(err)
	terminal, isTerminal := errors.AsType[*notice.TerminalError](err)
	switch {
	case isGone:
		err = nil
		why = fmt.Sprintf("revision %s, which the workload had before, no longer exists (with revisionHistoryLimit 0, no history keeps it)", gone.Name)
	case isTerminal:
		why = terminal.Text
	default:
		return err
	}
	once := fmt.Sprint(obj.GetUID(), s.Current, s.Record.Stops, why)
	if _, told := c.lost.Get(once); told {
		return err
	}
	c.lost.Add(once, struct{}{})
	n := notice.Warning(notice.NotRolledBack, s.Source.Source(), "%s is not rolled back here: %s. The workload stays as it is. Correct %s", s.Describe(), why, s.Source.Text())
	n.Object, n.Kind = obj, w.Engine.Kind.Resource()
	c.Notices.Send(ctx, n)
	return err
}

// movesBack returns how the pins of a workload's latest advance move back with that of a source, as far as they are still those.
func movesBack(look rollout.Assessment, note spread.Advance, source pin.Source) map[pin.Source]plan.Decision {
	back, moves := note.Back(source), map[pin.Source]plan.Decision{}
	for _, d := range look.Pins.Decisions {
		if from, noted := back[d.Source]; noted && from != (pin.Pin{}) && d.Verdict == plan.InSync && d.From == note.To[d.Source] {
			d.To = from
			moves[d.Source] = d
		}
	}
	return moves
}

// evict ends the pods of StatefulSets that are stuck on a change that was rolled back: the controller of an ordered StatefulSet waits until they
// are ready, which they never are. The request names the UID of the pod that was seen, and honors disruption budgets. It reports whether there
// were any, so that the StatefulSets must be looked at again.
func (c *Conductor) evict(ctx context.Context, s *fleet.Survey) (stuck bool, err error) {
	if c.Evictions == nil || s.Settings.OnFailure < spread.Undo {
		return false, nil
	}
	var errs []error
	for _, m := range s.Apart {
		pods, err := c.Fleet.Stuck(ctx, s, m.Name)
		errs = append(errs, err)
		stuck = stuck || len(pods) > 0
		for i := range pods {
			pod := &pods[i]
			err := c.Evictions.Create(ctx, pod, &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}})
			switch {
			case err == nil:
				log.FromContext(ctx).Info("evicted a pod that was stuck on a change that was rolled back", "workload", m.Name, "pod", pod.Name)
			case apierrors.IsTooManyRequests(err):
				log.FromContext(ctx).Info("a disruption budget keeps a pod that is stuck on a change that was rolled back", "workload", m.Name, "pod", pod.Name)
			case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
				errs = append(errs, fmt.Errorf("evict pod %s: %w", pod.Name, err))
			}
		}
	}
	return stuck, errors.Join(errs...)
}
