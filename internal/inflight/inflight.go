// Package inflight decides how many requests confrev has in flight once the API server refuses some.
//
// As a rule, the API server's priority and fairness lets requests wait. Where it refuses them instead (429), because its queues are full or its
// administrator wants it, it also says when to come again: after a second at first, and after up to 32 when many are refused, to every client of that
// priority level (k8s.io/apiserver/pkg/util/flowcontrol, DroppedRequestsTracker). A client that keeps sending what will be refused therefore delays
// itself and others by minutes.
package inflight

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// Limit is how many requests may be in flight. There is none until the API server refuses a request. Then, it is as many as the API server took on, and
// grows by a quarter, at least by one, whenever requests have had to wait and none was refused for as long as the API server last asked for. Requests
// that have to wait are sent in the order in which they came.
type Limit struct {
	Log logr.Logger

	mu       sync.Mutex
	inFlight int
	// most is zero without a limit.
	most    int
	waiting []chan struct{}
	// changed is when most last changed, pause the time for which it is not raised again, and said when its log line was written.
	changed, said time.Time
	pause         time.Duration
}

const (
	// leastPause is what the API server asks for at first, in the Retry-After header.
	leastPause = time.Second
	// quiet is the least time between two log lines.
	quiet = time.Minute
)

type urgent struct{}

// Urgent returns a context whose requests do not wait: those that answer a request of an API server, which waits for them. That one may be confrev's own,
// and count among those in flight.
func Urgent(ctx context.Context) context.Context { return context.WithValue(ctx, urgent{}, true) }

// IsUrgent reports whether the requests of a context do not wait.
func IsUrgent(ctx context.Context) bool { return ctx.Value(urgent{}) != nil }

// Wrap returns a transport that observes the limit. Watches, which stay open, and leases pass.
func (l *Limit) Wrap(next http.RoundTripper) http.RoundTripper { return limited{limit: l, next: next} }

type limited struct {
	limit *Limit
	next  http.RoundTripper
}

// RoundTrip sends a request, after waiting for its turn.
func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") != "" || strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/") {
		return l.next.RoundTrip(r)
	}
	if err := l.limit.enter(r.Context()); err != nil {
		if r.Body != nil {
			// A transport closes the body, whatever it does with the request.
			err = errors.Join(err, r.Body.Close())
		}
		return nil, err
	}
	response, err := l.next.RoundTrip(r)
	// A refused eviction is about a disruption budget, not about the API server.
	if strings.HasSuffix(r.URL.Path, "/eviction") {
		l.limit.leave(nil)
	} else {
		l.limit.leave(response)
	}
	return response, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (l limited) WrappedRoundTripper() http.RoundTripper { return l.next }

// enter waits until one more request may be in flight.
func (l *Limit) enter(ctx context.Context) error {
	l.mu.Lock()
	if l.most == 0 || l.inFlight < l.most || IsUrgent(ctx) {
		l.inFlight++
		l.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, turn); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	} else {
		// Its turn came meanwhile.
		l.inFlight--
		l.admit()
	}
	return ctx.Err()
}

// leave ends a request, whose response is nil if there was none, and learns from the answer.
func (l *Limit) leave(response *http.Response) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	switch now := time.Now(); {
	case response != nil && response.StatusCode == http.StatusTooManyRequests:
		l.refused(now, response.Header.Get("Retry-After"))
	case len(l.waiting) > 0 && now.Sub(l.changed) >= l.pause:
		l.most += max(1, l.most/4)
		l.changed = now
	}
	l.admit()
}

// refused lowers the limit to what is still in flight: the API server took that on, or is about to refuse it, too.
func (l *Limit) refused(now time.Time, after string) {
	if l.most == 0 || l.inFlight < l.most {
		l.most = max(1, l.inFlight)
	}
	l.changed, l.pause = now, leastPause
	if seconds, err := strconv.Atoi(after); err == nil {
		l.pause = max(l.pause, time.Duration(seconds)*time.Second)
	}
	if now.Sub(l.said) >= quiet {
		l.said = now
		l.Log.Info("the API server refuses requests of confrev (429): fewer are sent at a time, and what they are about is late",
			"retryAfter", l.pause.String())
	}
}

// admit lets those that wait go, as far as the limit allows.
func (l *Limit) admit() {
	for len(l.waiting) > 0 && l.inFlight < l.most {
		close(l.waiting[0])
		l.waiting = slices.Delete(l.waiting, 0, 1)
		l.inFlight++
	}
}
