package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
)

// reporter sends notices of changes to a workload's pins, hashes and holds. It compares what the API server shows, so that each change is
// reported once, by one replica, no matter what made it: the reconciler, any replica's webhook, or a user's undo.
type reporter struct{ *Workloads }

// handler returns a handler that reports changes from now on. Earlier changes were reported already, or are lost.
func (r reporter) handler() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, _ queue) {
			if !e.IsInInitialList {
				r.report(ctx, r.Kind.New(), e.Object)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, _ queue) {
			r.report(ctx, e.ObjectOld, e.ObjectNew)
			r.Conductor.moved(e.ObjectOld, e.ObjectNew, r.Kind.Health)
		},
	}
}

// shown has the pins, hashes and holds of a workload and its template, without malformed ones. stamped are the hashes of the template, and
// hashes those or the newer ones that the workload notes.
type shown struct{ pins, stamped, hashes, held, heldHashes pin.Set }

func (r reporter) shownBy(obj client.Object) shown {
	template := r.Template(obj).Annotations
	var s shown
	s.pins, _ = pin.Parse(template[keys.Pins])
	s.hashes, _ = pin.ParseHashes(obj.GetAnnotations()[keys.Hashes])
	s.stamped, _ = pin.ParseHashes(template[keys.Hashes])
	if s.hashes == nil {
		s.hashes = pin.Set{}
	}
	for source, p := range s.stamped {
		if p.Number >= s.hashes[source].Number {
			s.hashes[source] = p
		}
	}
	held, _ := pin.ParseNotes(obj.GetAnnotations()[keys.Held])
	heldHashes, _ := pin.ParseNotes(obj.GetAnnotations()[keys.HeldHashes])
	s.held, s.heldHashes = held.Holding(s.pins), heldHashes.Holding(s.hashes)
	return s
}

func (r reporter) report(ctx context.Context, before, obj client.Object) {
	left, err := r.Options.LeftAlone(ctx, r.Client, r.Live, obj.GetNamespace())
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot tell whether a namespace is being deleted", "namespace", obj.GetNamespace())
	}
	if left {
		return
	}
	was, is := r.shownBy(before), r.shownBy(obj)
	for _, source := range sorted(was.pins, is.pins) {
		r.reportPin(ctx, obj, source, was.pins[source], is.pins[source])
	}
	for _, source := range sorted(was.hashes, is.hashes) {
		// Pods have read what is only noted on the workload already, unless they were restarted for it.
		if is.stamped[source] == is.hashes[source] || r.Kind.RestartAt(before) != r.Kind.RestartAt(obj) {
			r.reportHash(ctx, obj, source, was.hashes[source], is.hashes[source])
		}
	}
	r.reportHolds(ctx, before, obj, was, is)
	if len(was.pins) > 0 && len(is.pins) == 0 {
		why := ""
		if mode := obj.GetAnnotations()[keys.Mode]; mode != "" {
			why = fmt.Sprintf(", since the mode is %s", mode)
		}
		r.say(ctx, obj, notice.Notice{Reason: notice.Unpinned, Pins: was.pins, Text: fmt.Sprintf(
			"The pod template has no pins any more%s: pods read the sources themselves", why)})
	}
}

func (r reporter) reportHolds(ctx context.Context, before, obj client.Object, was, is shown) {
	why := "Rolled back"
	if before.GetUID() == "" {
		why = "Created from a manifest with an older pin"
	}
	for _, source := range sorted(is.held) {
		if was.held[source] == (pin.Pin{}) {
			r.say(ctx, obj, notice.Notice{Reason: notice.Held, Source: source, From: is.held[source], To: is.pins[source], Text: fmt.Sprintf(
				"%s: staying on revision %s of %s, not on %s, %s", why, is.pins[source], source, is.held[source], r.until(obj, source))})
		}
	}
	for _, source := range sorted(is.heldHashes) {
		if was.heldHashes[source] == (pin.Pin{}) {
			r.say(ctx, obj, notice.Notice{Reason: notice.Held, Source: source, Text: fmt.Sprintf(
				"%s: not restarted for %s %s", why, source, r.until(obj, source))})
		}
	}
}

// until returns what ends a hold (rules 4 and 21.3), and the command that does.
func (r reporter) until(obj client.Object, source pin.Source) string {
	return fmt.Sprintf("until %s changes or a deploy changes code that was undone; to continue now: kubectl confrev resume %s/%s %s -n %s",
		source, r.Kind.Resource(), obj.GetName(), source, obj.GetNamespace())
}

func (r reporter) reportPin(ctx context.Context, obj client.Object, source pin.Source, from, to pin.Pin) {
	n := notice.Notice{Source: source, From: from, To: to}
	switch {
	case from == to || to == pin.Pin{}:
		return
	case from == pin.Pin{}:
		n.Reason, n.Text = notice.Pinned, fmt.Sprintf("Pinned %s to its revision %s", source, to)
	case from.Number < to.Number:
		n.Reason, n.Text = notice.RolledForward, fmt.Sprintf("Rolled %s forward from revision %s to %s", source, from, to)
	default:
		n.Reason, n.Text = notice.RolledBack, fmt.Sprintf("Rolled %s back from revision %s to %s", source, from, to)
	}
	r.say(ctx, obj, n)
}

func (r reporter) reportHash(ctx context.Context, obj client.Object, source pin.Source, from, to pin.Pin) {
	// An undo brings back an earlier hash.
	if from == (pin.Pin{}) || to.Number <= from.Number {
		return
	}
	what := "changed"
	if about := r.sourceObject(ctx, obj, source); about != nil {
		if rotates, _, err := r.Store.Rotates(ctx, r.Options.Rotating, source, about, false); err == nil && rotates {
			what = "was rotated"
		}
	}
	r.say(ctx, obj, notice.Notice{Reason: notice.Restarted, Source: source, Text: fmt.Sprintf("Restarted because %s %s", source, what)})
}

// say sends a notice about a workload, with the source if that is in the cache.
func (r reporter) say(ctx context.Context, obj client.Object, n notice.Notice) {
	n.Normal, n.Object, n.Kind = true, obj, r.Kind.Resource()
	if about := r.sourceObject(ctx, obj, n.Source); about != nil {
		n.SourceObject = about
	}
	r.Notices.Send(ctx, n)
}

// sourceObject returns the source that an event is about; nil when there is none in the cache.
func (r reporter) sourceObject(ctx context.Context, obj client.Object, source pin.Source) *metav1.PartialObjectMetadata {
	if !r.Options.Enabled(source.Kind) {
		return nil
	}
	about := revision.Metadata(revision.Ref{Kind: source.Kind, Namespace: obj.GetNamespace(), Name: source.Name})
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(about), about); err != nil {
		return nil
	}
	return about
}

func sorted(sets ...pin.Set) []pin.Source {
	all := map[pin.Source]bool{}
	for _, set := range sets {
		for source := range set {
			all[source] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), pin.Source.Compare)
}

// queue takes requests; a reporter makes none.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
