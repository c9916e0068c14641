package operator

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// answers is a transport that answers with a status.
type answers int

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(a), Body: http.NoBody}, nil
}

// A process whose lease has run out writes nothing, and one that never led does.
func TestAfterItsLeaseALeaderWritesNothing(t *testing.T) {
	const lease, other = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/confrev", "/api/v1/namespaces/ns/configmaps/app"
	request := func(method, path string) *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), method, "https://localhost"+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	tests := map[string]struct {
		renewal      answers
		led          bool
		later        time.Duration
		method, path string
		fenced       bool
	}{
		"within its lease":                     {200, true, leaseDuration - 1, http.MethodPatch, other, false},
		"when its lease has run out":           {200, true, leaseDuration, http.MethodPatch, other, true},
		"a create":                             {201, true, time.Hour, http.MethodPost, other, true},
		"a delete":                             {200, true, time.Hour, http.MethodDelete, other, true},
		"a read":                               {200, true, time.Hour, http.MethodGet, other, false},
		"the lease itself":                     {200, true, time.Hour, http.MethodPut, lease, false},
		"a renewal that failed does not count": {409, true, time.Hour, http.MethodPatch, other, false},
		"one that has not led":                 {200, false, time.Hour, http.MethodPatch, other, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			f := &fence{now: func() time.Time { return now }}
			send := func(answer answers, method, path string) error {
				response, err := f.wrap(answer).RoundTrip(request(method, path))
				if err == nil {
					err = response.Body.Close()
				}
				return err
			}
			if test.led {
				if err := send(test.renewal, http.MethodPut, lease); err != nil {
					t.Fatal(err)
				}
			}
			now = now.Add(test.later)
			err := send(200, test.method, test.path)
			if got := errors.Is(err, errFenced); got != test.fenced {
				t.Errorf("fenced: %t (%v)", got, err)
			}
		})
	}
}

// The time counts from before the request: another replica may have seen the renewal before its answer was here.
func TestALeaseCountsFromTheRequest(t *testing.T) {
	now := time.Now()
	f := &fence{now: func() time.Time { return now }}
	slow := roundTrip(func(r *http.Request) (*http.Response, error) {
		now = now.Add(time.Second)
		return answers(200).RoundTrip(r)
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://localhost/apis/coordination.k8s.io/v1/namespaces/ns/leases/confrev", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := f.wrap(slow).RoundTrip(r)
	if err != nil || response.Body.Close() != nil {
		t.Fatal(err)
	}
	if now = now.Add(leaseDuration - time.Second); !f.passed() {
		t.Error("it may still write")
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
