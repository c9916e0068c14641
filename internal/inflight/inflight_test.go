package inflight

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// server is a transport to an API server that executes as many requests at a time as it has seats, 10 ms each, and refuses all others at once.
type server struct {
	mu                  sync.Mutex
	seats, busy, peak   int
	refusals, responses int
}

func (s *server) RoundTrip(*http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy >= s.seats {
		s.refusals++
		return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}, Body: http.NoBody}, nil
	}
	s.busy++
	s.peak = max(s.peak, s.busy)
	s.mu.Unlock()
	time.Sleep(10 * time.Millisecond)
	s.mu.Lock()
	s.busy--
	s.responses++
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// client sends requests as client-go does: it repeats what was refused when the server says so.
type client struct {
	*testing.T
	transport http.RoundTripper
}

func (c client) send(ctx context.Context, path string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPatch, "https://localhost"+path, strings.NewReader("{}"))
	if err != nil {
		c.Fatal(err)
	}
	for {
		response, err := c.transport.RoundTrip(r)
		if err != nil {
			return err
		}
		if err := response.Body.Close(); err != nil {
			return err
		}
		if response.StatusCode == http.StatusOK {
			return nil
		}
		time.Sleep(time.Second)
	}
}

// burst sends requests from as many workers, and returns how long that took.
func (c client) burst(workers, each int) time.Duration {
	began := time.Now()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range each {
				if err := c.send(c.Context(), "/apis/apps/v1/namespaces/ns/deployments/web"); err != nil {
					c.Error(err)
				}
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

func TestARefusedClientSendsFewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		s, log := &server{seats: 3}, funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
		took := client{t, (&Limit{Log: log}).Wrap(s)}.burst(32, 100)
		if s.responses != 3200 {
			t.Errorf("%d of 3200 requests were executed", s.responses)
		}
		// 3,200 requests of 10 ms, three at a time, take 10.7 s. At most 29 are refused at first, and then one in a second.
		if most := 29 + int(took/time.Second) + 1; s.refusals == 0 || s.refusals > most {
			t.Errorf("%d requests were refused in %s, at most %d expected", s.refusals, took, most)
		}
		if most := 14 * time.Second; took > most {
			t.Errorf("all took %s, at most %s expected", took, most)
		}
		if len(lines) != 1 {
			t.Errorf("log lines: %q", lines)
		}
	})
}

// Without refusals, there is no limit.
func TestNoLimitWithoutRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{seats: 1000}
		client{t, (&Limit{Log: logr.Discard()}).Wrap(s)}.burst(500, 2)
		if s.peak != 500 {
			t.Errorf("at most %d of 500 requests were in flight", s.peak)
		}
	})
}

// An API server that was busy for a moment gets all requests again.
func TestALimitGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{seats: 1}
		c := client{t, (&Limit{Log: logr.Discard()}).Wrap(s)}
		c.burst(32, 1)
		s.mu.Lock()
		s.seats, s.peak, s.refusals = 32, 0, 0
		s.mu.Unlock()
		c.burst(32, 2000)
		if s.peak != 32 || s.refusals > 0 {
			t.Errorf("at most %d of 32 requests were in flight, %d were refused", s.peak, s.refusals)
		}
	})
}

// The API server answers 429 to evictions that a disruption budget does not allow, for as long as it does not.
func TestADisruptionBudgetIsNoLimit(t *testing.T) {
	for path, limited := range map[string]bool{
		"/api/v1/namespaces/ns/pods/web/eviction":     false,
		"/apis/apps/v1/namespaces/ns/deployments/web": true,
	} {
		limit := &Limit{Log: logr.Discard()}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://localhost"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := limit.Wrap(&server{}).RoundTrip(r)
		if err != nil || response.Body.Close() != nil || response.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("%v, %v", response, err)
		}
		if (limit.most > 0) != limited || limit.inFlight != 0 {
			t.Errorf("%s: at most %d in flight", path, limit.most)
		}
	}
}

// A request for which an API server waits, and one on which the lease depends, do not wait for others.
func TestWhatDoesNotWait(t *testing.T) {
	const path = "/apis/apps/v1/namespaces/ns/deployments/web"
	tests := map[string]struct {
		urgent bool
		path   string
		waits  bool
	}{
		"a patch":                     {false, path, true},
		"what answers an API server":  {true, path, false},
		"a watch":                     {false, path + "?watch=true", false},
		"a lease":                     {false, "/apis/coordination.k8s.io/v1/namespaces/ns/leases/confrev", false},
		"a list of the same resource": {false, path + "?limit=500", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{seats: 100}
				c := client{t, (&Limit{Log: logr.Discard(), most: 1, inFlight: 1, changed: time.Now(), pause: time.Hour}).Wrap(s)}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if test.urgent {
					ctx = Urgent(ctx)
				}
				err := c.send(ctx, test.path)
				if waits := errors.Is(err, context.DeadlineExceeded); waits != test.waits || !waits && err != nil {
					t.Errorf("waits: %t (%v)", waits, err)
				}
			})
		})
	}
}

// A request that is given up while it waits leaves its place to others, also if its turn comes before it knows.
func TestARequestThatIsGivenUp(t *testing.T) {
	for _, turn := range []bool{false, true} {
		t.Run(fmt.Sprint("its turn comes: ", turn), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &Limit{Log: logr.Discard(), most: 1}
				if err := l.enter(t.Context()); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- l.enter(ctx) }()
				synctest.Wait()
				l.mu.Lock()
				cancel()
				l.inFlight--
				if turn {
					l.admit()
				}
				l.mu.Unlock()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("error %v", err)
				}
				if l.inFlight != 0 || len(l.waiting) != 0 {
					t.Errorf("%d in flight, %d waiting", l.inFlight, len(l.waiting))
				}
			})
		})
	}
}
