package sink

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ref "k8s.io/client-go/tools/reference"

	"golang.org/x/time/rate"
)

const (
	// pace is how many events are sent per second, and burst how many at once: the recorder of client-go sends each in a goroutine of its
	// own, and drops those beyond a thousand.
	pace, burst = 200, 50
	// trickle is the time between two events while many workloads wait.
	trickle = 200 * time.Millisecond
	// most is how many events may wait: those of a change to all workloads that one installation can have, but not as many as someone can cause who
	// rewrites the pins of a template again and again.
	most = 50_000
)

// Later is a recorder that lets pins go first. In a change to thousands of workloads, their events would cost the API server as much as the
// pins themselves. Warnings, of which there are few, are not delayed. It keeps references, not objects, and loses nothing before most events wait.
type Later struct {
	next   events.EventRecorder
	scheme *runtime.Scheme
	// busy reports whether many workloads wait for their turn.
	busy  func() bool
	limit *rate.Limiter

	// close ends the next recorder.
	close func()

	mu sync.Mutex
	// queue has the events that wait, other than those that Start has taken: of these there are as many at most.
	queue   []normal
	started bool
	// ended is true once the next recorder takes no more events.
	ended bool
	// more has a value if there is something in the queue that Start does not know of.
	more chan struct{}
}

// normal is an event that can wait.
type normal struct {
	regarding, related   runtime.Object
	reason, action, note string
	args                 []any
}

// NewLater returns a recorder that sends to another one, which it ends when it has ended itself. It needs to be started, or abandoned.
func NewLater(next events.EventRecorder, end func(), scheme *runtime.Scheme, busy func() bool) *Later {
	return &Later{next: next, close: end, scheme: scheme, busy: busy, limit: rate.NewLimiter(pace, burst), more: make(chan struct{}, 1)}
}

// Eventf takes an event.
func (l *Later) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	about, err := ref.GetReference(l.scheme, regarding)
	if kind != corev1.EventTypeNormal || err != nil {
		l.next.Eventf(regarding, related, kind, reason, action, note, args...)
		return
	}
	if len(l.queue) == most {
		warnings.WithLabelValues(eventsDropped).Inc()
		return
	}
	event := normal{regarding: about, reason: reason, action: action, note: note, args: args}
	if related != nil {
		// Without a reference to it, the event has none, as with the recorder itself.
		if to, err := ref.GetReference(l.scheme, related); err == nil {
			event.related = to
		}
	}
	l.queue = append(l.queue, event)
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// NeedLeaderElection returns false, because the webhook of every replica sends notices.
func (*Later) NeedLeaderElection() bool { return false }

// Abandon ends the next recorder if this one was not started, and will not be.
func (l *Later) Abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.started && !l.ended {
		l.queue, l.ended = nil, true
		l.close()
	}
}

// begin reports whether there is a recorder to send to.
func (l *Later) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = !l.ended
	return l.started
}

// Start sends events until ctx ends, and then those that are left.
func (l *Later) Start(ctx context.Context) error {
	if !l.begin() {
		return nil
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-l.more:
		}
		for _, event := range l.take() {
			l.pause(ctx)
			l.send(event)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, event := range l.queue {
		l.send(event)
	}
	l.queue, l.ended = nil, true
	l.close()
	return nil
}

func (l *Later) take() []normal {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.queue
	l.queue = nil
	return slices.Clip(taken)
}

// pause waits until the next event may be sent.
func (l *Later) pause(ctx context.Context) {
	if l.busy() {
		select {
		case <-ctx.Done():
		case <-time.After(trickle):
		}
		return
	}
	// It fails only if ctx ends, and then nothing waits any more.
	_ = l.limit.Wait(ctx)
}

func (l *Later) send(e normal) {
	l.next.Eventf(e.regarding, e.related, corev1.EventTypeNormal, e.reason, e.action, e.note, e.args...)
}
