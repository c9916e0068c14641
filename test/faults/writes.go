package faults

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
)

// errLost makes the answer to a write get lost.
var errLost = errors.New("the answer was lost on purpose")

// Write is a request that changed something.
type Write struct {
	// Method and Path are those of the request.
	Method, Path string
	// At is when the API server answered it.
	At time.Time
}

// String returns a write as "PATCH /apis/apps/v1/namespaces/ns/deployments/web".
func (w Write) String() string { return w.Method + " " + w.Path }

// In reports whether a write was to an object of a namespace.
func (w Write) In(namespace string) bool {
	return strings.Contains(w.Path, "/namespaces/"+namespace+"/")
}

// OfLease reports whether a write was to a lease.
func (w Write) OfLease() bool { return strings.HasPrefix(w.Path, "/apis/coordination.k8s.io/") }

// OfEvent reports whether a write was an event.
func (w Write) OfEvent() bool { return strings.HasPrefix(w.Path, "/apis/events.k8s.io/") }

// Writes returns those that took effect through this proxy, in the order of their answers.
func (p *Proxy) Writes() []Write {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.writes)
}

// Crash says after which write a process ends.
type Crash struct {
	// Counts chooses the writes that count.
	Counts func(Write) bool
	// At is the number of the write, from 1.
	At int
	// Answered lets the process have the answer: it ends before its next write, or if it does not write, after so long (100 ms if not set): enough to
	// remember what it read. Else it ends before the answer.
	Answered bool
	Moment   time.Duration
	// Kill ends the process, and waits until it is gone.
	Kill func() error
}

// Death is how a process ended.
type Death struct {
	After Write
	// Err is that of Kill.
	Err error
}

// crash is a Crash that is ahead.
type crash struct {
	Crash
	counted []Write
	// next is closed when the process wants to write again after its last write, and died once it is gone.
	next  chan struct{}
	late  bool
	died  chan struct{}
	death chan Death
}

// Arm makes the process end at a write. The channel has one value then. From the write on, no other one gets through until the process has ended.
func (p *Proxy) Arm(c Crash) <-chan Death {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.crash = &crash{Crash: c, next: make(chan struct{}), died: make(chan struct{}), death: make(chan Death, 1)}
	return p.crash.death
}

// Disarm ends what Arm began, and returns the writes that counted, up to the one at which the process ended.
func (p *Proxy) Disarm() []Write {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.crash == nil {
		return nil
	}
	counted := p.crash.counted
	p.crash = nil
	return counted
}

// serveWrite passes a write on, unless the process is to end.
func (p *Proxy) serveWrite(w http.ResponseWriter, r *http.Request) {
	if died := p.dying(); died != nil {
		<-died
		panic(http.ErrAbortHandler)
	}
	end := &last{}
	p.upstream.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), lastKey{}, end)))
	if c := end.crash; c != nil {
		// Not here: the client may send its next request through the connection of this one.
		p.serving.Go(c.killBeforeNext)
	}
}

// killBeforeNext ends the process when it wants to write again, or has had its moment.
func (c *crash) killBeforeNext() {
	timer := time.NewTimer(cmp.Or(c.Moment, 100*time.Millisecond))
	defer timer.Stop()
	select {
	case <-c.next:
	case <-timer.C:
	}
	c.kill()
}

// dying returns a channel that is closed when the process is gone, if it is about to end.
func (p *Proxy) dying() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.crash
	if c == nil || len(c.counted) < c.At || isClosed(c.died) {
		return nil
	}
	if !c.late {
		c.late = true
		close(c.next)
	}
	return c.died
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// last is filled in with the crash that follows the answer to a request. It is in the request's context.
type last struct{ crash *crash }

type lastKey struct{}

func (c *crash) kill() {
	err := c.Kill()
	c.death <- Death{After: c.counted[len(c.counted)-1], Err: err}
	close(c.died)
}

// answered lets faults befall the API server's answer.
func (p *Proxy) answered(response *http.Response) error {
	r := response.Request
	succeeded := response.StatusCode < http.StatusMultipleChoices
	if isWatch(r) && succeeded {
		return p.stream(response)
	}
	if !isWrite(r) || !succeeded {
		return nil
	}
	return p.took(r)
}

// took notes a write that took effect.
func (p *Proxy) took(r *http.Request) error {
	write := Write{Method: r.Method, Path: r.URL.Path, At: time.Now()}
	p.mu.Lock()
	p.writes = append(p.writes, write)
	c := p.crash
	reached := false
	if c != nil && len(c.counted) < c.At && c.Counts(write) {
		c.counted = append(c.counted, write)
		reached = len(c.counted) == c.At
	}
	p.mu.Unlock()
	if reached && !c.Answered {
		c.kill()
		return errLost
	}
	if end, ok := r.Context().Value(lastKey{}).(*last); ok && reached {
		end.crash = c
		return nil
	}
	if !p.spared(r) && p.befalls(LostAnswer) {
		return errLost
	}
	return nil
}
