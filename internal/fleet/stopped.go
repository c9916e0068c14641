package fleet

import (
	"context"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/waiting"
	"confrev.io/confrev/internal/workload"
)

// whyStopped returns what waits for the end of a stop.
func (s *Survey) whyStopped() waiting.Wait {
	if s.Stops() == 0 {
		return waiting.ForStop(s.Source.Text())
	}
	return waiting.Turn(waiting.Stopped, strings.Join(s.Record.FailedMembers(), ", ")+" failed with it", s.Source.Text(), time.Time{})
}

// Stops knows which changes are stopped because of failures, and nothing else of them, for a process that does not look at all workloads. It
// implements rollout.Others.
type Stops struct {
	// Client reads revisions.
	Client client.Reader
}

// Turn lets everyone go whose change is not stopped.
func (o Stops) Turn(ctx context.Context, asked rollout.Spreading, _ string) (waiting.Wait, error) {
	why, _, err := o.Stopped(ctx, asked)
	return why, err
}

// GiveBack does nothing: no one takes up a place.
func (o Stops) GiveBack(context.Context, rollout.Spreading, string) {}

// Stopped returns why a change goes no further. What others work with is not known.
func (o Stops) Stopped(ctx context.Context, asked rollout.Spreading) (why waiting.Wait, instead pin.Pin, err error) {
	s := &Survey{Spreading: asked, Current: asked.To}
	if err := s.readRecord(ctx, o.Client); err != nil || s.Stops() == 0 {
		return waiting.Wait{}, pin.Pin{}, err
	}
	return s.whyStopped(), pin.Pin{}, nil
}

// StopWith returns the number of the stop because of which members go back from the change, together with that of another source: the latest one, or the
// next if each of them counts as a failure and so many stop the change. It is 0 if nothing does: no one could end such a stop.
func (s *Survey) StopWith(other pin.Source, back []string) int {
	if s.Stops() > 0 {
		return s.Record.Stops
	}
	all := slices.Concat(s.Has(), s.Apart)
	for i := range all {
		m, of := &all[i], s.Workloads[all[i].Name].standing
		_, together := of.Advance.Back(other)[s.Source.Source()]
		m.Fails = m.Fails || slices.Contains(back, m.Name) && together && of.Has && of.Code && !of.Advance.Unwell
	}
	if failures := (spread.Spread{Apart: all}).Failures(s.Record.Failed); !s.Settings.Stops(len(failures)) {
		return 0
	}
	return s.Record.Stops + 1
}

// isStoppedByPerson reports whether someone, or something other than confrev, has stopped the change.
func (s *Survey) isStoppedByPerson() bool {
	return s.Current.Revision != "" && s.Meta.Annotations[keys.Stop] == s.Current.Revision
}

// Stopped returns why a change goes no further, and the newest revision that others work with. It implements rollout.Others.
func (f *Fleet) Stopped(ctx context.Context, asked rollout.Spreading) (why waiting.Wait, instead pin.Pin, err error) {
	s, err := f.recent(ctx, f.change(asked.Source), asked)
	if err != nil || !s.Stopped {
		return waiting.Wait{}, pin.Pin{}, err
	}
	for _, w := range s.Workloads {
		if p := w.worksWith(asked.Source.Source()); p.Revision != s.Current.Revision && p.Number > instead.Number {
			instead = p
		}
	}
	return s.whyStopped(), instead, nil
}

// worksWith returns the revision with which a workload is healthy, or was before it took the change; zero if nothing shows one.
func (w Workload) worksWith(source pin.Source) pin.Pin {
	of := w.standing
	if of.Has && of.Advance.Unwell {
		return pin.Pin{}
	}
	if of.Has {
		return of.Advance.From[source]
	}
	unwell := slices.ContainsFunc(of.Health, func(h workload.Health) bool { return !h.Works || h.Idle })
	if len(of.Health) == 0 || unwell || w.Engine.Kind.RunsJobs() {
		return pin.Pin{}
	}
	return of.Decision.From
}
