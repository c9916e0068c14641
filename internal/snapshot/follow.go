package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrStale says that a snapshot cannot be followed any longer, since the API server ended the watch or no longer has its
// beginning. Take another one.
var ErrStale = errors.New("the watch ended")

// Follow keeps the snapshot up to date by watching, and calls changed after each change, after several that arrived together, and at each tick,
// until changed reports that it is done, ctx ends, or an error occurs. After ErrStale, take another snapshot.
func (s *Snapshot) Follow(ctx context.Context, live client.WithWatch, tick <-chan time.Time, changed func() (done bool, err error)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	events := make(chan followed)
	for _, l := range s.listings {
		if l.err != nil {
			// Not served, or not permitted.
			continue
		}
		w, err := live.Watch(ctx, l.list, append(slices.Clone(l.options), &client.ListOptions{Raw: &metav1.ListOptions{
			ResourceVersion: l.list.GetResourceVersion(),
		}})...)
		if err != nil {
			return fmt.Errorf("watch %ss: %w", l.gvk.Kind, err)
		}
		defer w.Stop()
		go forward(ctx, l.gvk, w.ResultChan(), events)
	}
	for {
		if err := s.next(ctx, events, tick); err != nil {
			return err
		}
		if done, err := changed(); done || err != nil {
			return err
		}
	}
}

// followed is one event of a watch; without an object, its end.
type followed struct {
	gvk schema.GroupVersionKind
	apiwatch.Event
}

func forward(ctx context.Context, gvk schema.GroupVersionKind, from <-chan apiwatch.Event, to chan<- followed) {
	for {
		event, open := <-from
		select {
		case to <- followed{gvk, event}:
		case <-ctx.Done():
			return
		}
		if !open {
			return
		}
	}
}

// next waits for a change or a tick, and includes those that have already arrived.
func (s *Snapshot) next(ctx context.Context, events <-chan followed, tick <-chan time.Time) error {
	select {
	case event := <-events:
		if err := s.apply(event); err != nil {
			return err
		}
	case <-tick:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		select {
		case event := <-events:
			if err := s.apply(event); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (s *Snapshot) apply(event followed) error {
	if event.Type == apiwatch.Error {
		if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			return err
		}
		return ErrStale
	}
	obj, ok := event.Object.(client.Object)
	if !ok {
		return ErrStale
	}
	identify(obj, event.gvk)
	others := slices.DeleteFunc(slices.Clone(s.objects[event.gvk]), func(o client.Object) bool { return client.ObjectKeyFromObject(o) == client.ObjectKeyFromObject(obj) })
	if event.Type != apiwatch.Deleted {
		others = append(others, obj)
	}
	s.objects[event.gvk] = others
	delete(s.byValue, event.gvk)
	return nil
}
