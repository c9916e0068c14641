package operator

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// leaseDuration is for how long a leader leads without renewing its lease: no other replica leads earlier.
	leaseDuration = 15 * time.Second
	// lookForLease is the time between two looks at the lease, up to 2.2 times as long with client-go's jitter: so long after the lease has run out
	// or was released, no one leads.
	lookForLease = 800 * time.Millisecond
)

// errFenced is what a write gets of a process that led, once another may lead.
var errFenced = errors.New("this replica led, and has not renewed its lease in time, so another one may lead: it writes no more, and ends")

// fence keeps a replica from writing when its lease has run out. client-go's elector does not: a process that was suspended (SIGSTOP, a virtual
// machine that was paused) continues as the leader when it is resumed, and tries to renew for ten seconds while another one leads. The elector ends the
// process then; this ends its writes at once. One that has not led is not kept from anything: every replica answers webhooks, and prepares revisions
// for that.
type fence struct {
	now func() time.Time

	mu sync.Mutex
	// renewed is when this process began the request that last renewed its lease. It is zero for one that has not led.
	renewed time.Time
}

// wrap returns a transport that asks the fence.
func (f *fence) wrap(next http.RoundTripper) http.RoundTripper { return fenced{fence: f, next: next} }

// passed reports whether this process led, and another may lead now.
func (f *fence) passed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	// The monotonic clock stands still while a machine is suspended, and the other one can be set back.
	return !f.renewed.IsZero() && max(now.Sub(f.renewed), now.Round(0).Sub(f.renewed.Round(0))) >= leaseDuration
}

// fenced is a transport whose writes are refused beyond the fence.
type fenced struct {
	*fence
	next http.RoundTripper
}

// RoundTrip sends a request, unless it is a write beyond the fence.
func (f fenced) RoundTrip(r *http.Request) (*http.Response, error) {
	began := f.now()
	writes := slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, r.Method)
	lease := strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/")
	if writes && !lease && f.passed() {
		if r.Body != nil {
			// A transport closes the body, whatever it does with the request.
			return nil, errors.Join(errFenced, r.Body.Close())
		}
		return nil, errFenced
	}
	response, err := f.next.RoundTrip(r)
	if err == nil && writes && lease && response.StatusCode < http.StatusMultipleChoices {
		f.mu.Lock()
		f.renewed = began
		f.mu.Unlock()
	}
	return response, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (f fenced) WrappedRoundTripper() http.RoundTripper { return f.next }
