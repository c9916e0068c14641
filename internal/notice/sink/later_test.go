package sink

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"confrev.io/confrev/test/gen"
)

// lateRecorder writes down when events come, and what they are about.
type lateRecorder struct {
	recorder
	at    []time.Duration
	types []string
	begun time.Time
}

func (r *lateRecorder) Eventf(regarding, related runtime.Object, kind, reason, action, format string, args ...any) {
	r.recorder.Eventf(regarding, related, kind, reason, action, format, args...)
	r.at = append(r.at, time.Since(r.begun))
	r.types = append(r.types, fmt.Sprintf("%T", regarding))
}

// later runs a recorder, as long as do takes, while so many workloads wait.
func later(t *testing.T, waiting func() int, do func(l *Later, sent *lateRecorder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sent := &lateRecorder{begun: time.Now()}
		l := NewLater(sent, clientgoscheme.Scheme, waiting)
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

func TestEventsComeAtOnceIfNothingWaits(t *testing.T) {
	later(t, func() int { return fewWait }, func(l *Later, sent *lateRecorder) {
		pinned(l, burst)
		synctest.Wait()
		if len(sent.at) != burst || slices.Max(sent.at) != 0 {
			t.Errorf("%d events came, the last after %s", len(sent.at), slices.Max(sent.at))
		}
		// It keeps references in place of objects.
		if sent.types[0] != "*v1.ObjectReference" {
			t.Errorf("the first is about a %s", sent.types[0])
		}
	})
}

func TestEventsWaitForWorkloadsThatWait(t *testing.T) {
	var waiting atomic.Int64
	waiting.Store(fewWait + 1)
	later(t, func() int { return int(waiting.Load()) }, func(l *Later, sent *lateRecorder) {
		pinned(l, 3000)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(sent.at); n == 0 || n > int(time.Second/trickle) {
			t.Errorf("%d events came within a second", n)
		}
		l.Eventf(gen.Deployment("api"), nil, corev1.EventTypeWarning, "SourceMissing", "Plan", "gone")
		if last := sent.events[len(sent.events)-1]; !strings.Contains(last, "SourceMissing") {
			t.Errorf("the warning waits; the last is %s", last)
		}
		waiting.Store(0)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(sent.at) != 3001 {
			t.Errorf("%d events came", len(sent.at))
		}
		if took := slices.Max(sent.at); took < 3000/pace*time.Second/2 || took > 2*3000/pace*time.Second {
			t.Errorf("the last came after %s", took)
		}
	})
}

func TestNoEventIsLostAtTheEnd(t *testing.T) {
	sent := &lateRecorder{}
	later(t, func() int { return 1000 }, func(l *Later, s *lateRecorder) {
		sent = s
		pinned(l, 100)
		synctest.Wait()
	})
	if len(sent.at) != 100 {
		t.Errorf("%d events came", len(sent.at))
	}
}
