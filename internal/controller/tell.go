package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
)

// teller says in events, metrics and the log what became of a workload's pins, hashes and holds. It compares what the API
// server shows, so that it is said once, by one replica, whoever wrote it: the reconciler, some replica's webhook or a
// user's undo.
type teller struct{ *workloads }

// handler tells of changes while this process watches. What happened before is told already, or lost.
func (t teller) handler() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, _ queue) {
			if !e.IsInInitialList {
				t.tell(ctx, t.kind.New(), e.Object)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, _ queue) { t.tell(ctx, e.ObjectOld, e.ObjectNew) },
	}
}

// shown is what a workload and its template say of pins, hashes and holds. What is malformed says nothing.
// hashes are those of the template, or the newer ones that the workload notes.
type shown struct{ pins, stamped, hashes, held, heldHashes pin.Set }

func (t teller) shownBy(obj client.Object) shown {
	template := t.template(obj).Annotations
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

func (t teller) tell(ctx context.Context, before, obj client.Object) {
	left, err := t.options.leftAlone(ctx, t.client, obj.GetNamespace())
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot tell whether a namespace is being deleted", "namespace", obj.GetNamespace())
	}
	if left {
		return
	}
	was, is := t.shownBy(before), t.shownBy(obj)
	logger := log.FromContext(ctx).WithValues("kind", t.kind.Resource(), "namespace", obj.GetNamespace(), "name", obj.GetName())
	for _, source := range sorted(was.pins, is.pins) {
		t.tellPin(ctx, logger, obj, source, was.pins[source], is.pins[source])
	}
	for _, source := range sorted(was.hashes, is.hashes) {
		// What is only noted was read before. Unless pods were restarted for it.
		if is.stamped[source] == is.hashes[source] || t.kind.RestartAt(before) != t.kind.RestartAt(obj) {
			t.tellHash(ctx, logger, obj, source, was.hashes[source], is.hashes[source])
		}
	}
	why := "Rolled back"
	if before.GetUID() == "" {
		why = "Created from a manifest with an older pin"
	}
	for _, source := range sorted(is.held) {
		if was.held[source] == (pin.Pin{}) {
			t.tellHeld(ctx, logger, obj, source, is.held[source], fmt.Sprintf(
				"%s: staying on revision %s of %s, not on %s, %s", why, is.pins[source], source, is.held[source], t.until(obj, source)))
		}
	}
	for _, source := range sorted(is.heldHashes) {
		if was.heldHashes[source] == (pin.Pin{}) {
			t.tellHeld(ctx, logger, obj, source, is.heldHashes[source], fmt.Sprintf(
				"%s: not restarted for %s %s", why, source, t.until(obj, source)))
		}
	}
	if len(was.pins) > 0 && len(is.pins) == 0 {
		logger.Info("unpinned", "pins", was.pins.String())
		why := ""
		if mode := obj.GetAnnotations()[keys.Mode]; mode != "" {
			why = fmt.Sprintf(", since the mode is %s", mode)
		}
		t.events.normal(obj, nil, reasonUnpinned, "Unpin", fmt.Sprintf("The pod template has no pins any more%s: pods read the sources themselves", why))
	}
}

// until says what ends a hold: rules 4 and 21.3, and a person.
func (t teller) until(obj client.Object, source pin.Source) string {
	return fmt.Sprintf("until %s changes or a deploy changes code that was undone; to go on now: kubectl confrev resume %s/%s %s -n %s",
		source, t.kind.Resource(), obj.GetName(), source, obj.GetNamespace())
}

func (t teller) tellPin(ctx context.Context, logger logr.Logger, obj client.Object, source pin.Source, from, to pin.Pin) {
	logger = logger.WithValues("source", source.String(), "from", from.String(), "to", to.String())
	switch {
	case from == to || to == pin.Pin{}:
	case from == pin.Pin{}:
		metricPinned.WithLabelValues(t.kind.Resource()).Inc()
		logger.Info("pinned")
		t.say(ctx, obj, source, reasonPinned, "Pin", fmt.Sprintf("Pinned %s to its revision %s", source, to))
	case from.Number < to.Number:
		metricAdvances.WithLabelValues(t.kind.Resource()).Inc()
		logger.Info("rolled forward")
		t.say(ctx, obj, source, reasonRolledForward, "Advance", fmt.Sprintf("Rolled %s forward from revision %s to %s", source, from, to))
	default:
		logger.Info("rolled back")
		t.say(ctx, obj, source, reasonRolledBack, "RollBack", fmt.Sprintf("Rolled %s back from revision %s to %s", source, from, to))
	}
}

func (t teller) tellHash(ctx context.Context, logger logr.Logger, obj client.Object, source pin.Source, from, to pin.Pin) {
	// With an undo, an earlier hash comes back.
	if from == (pin.Pin{}) || to.Number <= from.Number {
		return
	}
	metricRestarts.WithLabelValues(t.kind.Resource()).Inc()
	logger.Info("restarted", "because", source.String())
	what := "changed"
	if about := t.sourceObject(ctx, obj, source); about != nil && t.rotatesAsKnown(source, about) {
		what = "was rotated"
	}
	t.say(ctx, obj, source, reasonRestarted, "Restart", fmt.Sprintf("Restarted because %s %s", source, what))
}

func (t teller) tellHeld(ctx context.Context, logger logr.Logger, obj client.Object, source pin.Source, from pin.Pin, note string) {
	metricHolds.WithLabelValues(t.kind.Resource()).Inc()
	logger.Info("held", "source", source.String(), "from", from.String())
	t.say(ctx, obj, source, reasonHeld, "Hold", note)
	if about := t.sourceObject(ctx, obj, source); about != nil {
		t.events.normal(about, obj, reasonHeld, "Hold", fmt.Sprintf("%s %s: %s", t.kind.Resource(), obj.GetName(), note))
	}
}

func (t teller) say(ctx context.Context, obj client.Object, source pin.Source, reason, action, note string) {
	var related runtime.Object
	if about := t.sourceObject(ctx, obj, source); about != nil {
		related = about
	}
	t.events.normal(obj, related, reason, action, note)
}

// sourceObject gives a source to speak of in an event; nil when there is none in the cache.
func (t teller) sourceObject(ctx context.Context, obj client.Object, source pin.Source) *metav1.PartialObjectMetadata {
	if !t.options.enabled(source.Kind) {
		return nil
	}
	about := revision.Metadata(revision.Ref{Kind: source.Kind, Namespace: obj.GetNamespace(), Name: source.Name})
	if err := t.client.Get(ctx, key(about), about); err != nil {
		return nil
	}
	return about
}

// sorted gives the sources of sets, in order.
func sorted(sets ...pin.Set) []pin.Source {
	all := map[pin.Source]bool{}
	for _, set := range sets {
		for source := range set {
			all[source] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), pin.Source.Compare)
}

// queue takes requests; a teller makes none.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
