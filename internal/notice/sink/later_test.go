package sink

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"confrev.io/confrev/test/gen"
)

// lateRecorder writes down when events come, and what they are about.
type lateRecorder struct {
	mu sync.Mutex
	recorder
	at    []time.Duration
	types []string
	begun time.Time
	ended bool
}

func (r *lateRecorder) end() { r.ended = true }

func (r *lateRecorder) Eventf(regarding, related runtime.Object, kind, reason, action, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recorder.Eventf(regarding, related, kind, reason, action, format, args...)
	r.at = append(r.at, time.Since(r.begun))
	r.types = append(r.types, fmt.Sprintf("%T", regarding))
}

// have returns what came up to now, and when.
func (r *lateRecorder) have() (texts, types []string, at []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events), slices.Clone(r.types), slices.Clone(r.at)
}

func (r *lateRecorder) count() int {
	_, _, at := r.have()
	return len(at)
}

// later runs a recorder, as long as do takes.
func later(t *testing.T, busy func() bool, do func(l *Later, sent *lateRecorder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sent := &lateRecorder{begun: time.Now()}
		l := NewLater(sent, sent.end, clientgoscheme.Scheme, busy)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Start(ctx) }()
		do(l, sent)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func pinned(l *Later, n int) {
	for i := range n {
		l.Eventf(gen.Deployment(fmt.Sprint("web-", i)), nil, corev1.EventTypeNormal, "RolledForward", "Advance", "%d", i)
	}
}

// The next recorder ends once: with the one that sends to it, or as nothing starts that one.
func TestARecorderThatIsAbandoned(t *testing.T) {
	t.Run("before its start", func(t *testing.T) {
		sent := &lateRecorder{}
		l := NewLater(sent, sent.end, clientgoscheme.Scheme, func() bool { return false })
		pinned(l, 1)
		l.Abandon()
		if !sent.ended {
			t.Error("the next recorder has not ended")
		}
		sent.ended = false
		l.Abandon()
		if err := l.Start(t.Context()); err != nil || sent.ended || sent.count() != 0 {
			t.Errorf("it started, or ended twice: %v, %d events", err, sent.count())
		}
	})
	t.Run("while it runs", func(t *testing.T) {
		later(t, func() bool { return false }, func(l *Later, sent *lateRecorder) {
			synctest.Wait()
			l.Abandon()
			pinned(l, 1)
			synctest.Wait()
			if sent.ended || sent.count() != 1 {
				t.Errorf("it ended while it runs: %d events", sent.count())
			}
		})
	})
}

func TestEventsComeAtOnceIfNothingWaits(t *testing.T) {
	later(t, func() bool { return false }, func(l *Later, sent *lateRecorder) {
		pinned(l, burst)
		synctest.Wait()
		_, types, at := sent.have()
		if len(at) != burst || slices.Max(at) != 0 {
			t.Errorf("they came after %v", at)
		}
		// It keeps references in place of objects.
		if types[0] != "*v1.ObjectReference" {
			t.Errorf("the first is about a %s", types[0])
		}
	})
}

func TestEventsWaitForWorkloadsThatWait(t *testing.T) {
	var busy atomic.Bool
	busy.Store(true)
	later(t, busy.Load, func(l *Later, sent *lateRecorder) {
		pinned(l, 3000)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := sent.count(); n == 0 || n > int(time.Second/trickle) {
			t.Errorf("%d events came within a second", n)
		}
		l.Eventf(gen.Deployment("api"), nil, corev1.EventTypeWarning, "SourceMissing", "Plan", "gone")
		if texts, _, _ := sent.have(); !strings.Contains(texts[len(texts)-1], "SourceMissing") {
			t.Errorf("the warning waits: %q", texts)
		}
		busy.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		_, _, at := sent.have()
		if len(at) != 3001 {
			t.Errorf("%d events came", len(at))
		}
		if took := slices.Max(at); took < 3000/pace*time.Second/2 || took > 2*3000/pace*time.Second {
			t.Errorf("the last came after %s", took)
		}
	})
}

// Someone who rewrites pins again and again causes more events than confrev may send, and must not fill its memory with them.
func TestNoMoreEventsWaitThanMost(t *testing.T) {
	later(t, func() bool { return true }, func(l *Later, _ *lateRecorder) {
		pinned(l, 1)
		synctest.Wait()
		before := testutil.ToFloat64(warnings.WithLabelValues(eventsDropped))
		web := gen.Deployment("web")
		for range most + 10 {
			l.Eventf(web, nil, corev1.EventTypeNormal, "RolledBack", "Advance", "back")
		}
		if n := testutil.ToFloat64(warnings.WithLabelValues(eventsDropped)) - before; n != 10 || len(l.queue) != most {
			t.Errorf("%v were dropped, and %d wait", n, len(l.queue))
		}
	})
}

func TestNoEventIsLostAtTheEnd(t *testing.T) {
	sent, closed := &lateRecorder{}, &Later{}
	later(t, func() bool { return true }, func(l *Later, s *lateRecorder) {
		sent, closed = s, l
		pinned(l, 100)
		synctest.Wait()
	})
	if n := sent.count(); n != 100 || !sent.ended {
		t.Errorf("%d events came, ended: %t", n, sent.ended)
	}
	// client-go would log each as an error.
	closed.Eventf(gen.Deployment("api"), nil, corev1.EventTypeWarning, "SourceMissing", "Plan", "gone")
	pinned(closed, 1)
	if n := sent.count(); n != 100 {
		t.Errorf("%d events came after the end", n-100)
	}
}
