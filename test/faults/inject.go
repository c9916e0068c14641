package faults

import (
	"encoding/json"
	"maps"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is a kind of fault.
type Kind string

const (
	// Latency makes an answer late.
	Latency Kind = "latency"
	// TooMany refuses a request with 429 and Retry-After, as an API server does that has too much to do.
	TooMany Kind = "429"
	// Conflict refuses an update, patch or delete with 409. The API server does that also to a patch without a precondition, when others keep
	// writing the object. (Not to a create: there, 409 is a statement about the object.)
	Conflict Kind = "409"
	// ServerError refuses a request with 500.
	ServerError Kind = "500"
	// Unavailable refuses a request with 503.
	Unavailable Kind = "503"
	// LostAnswer closes the connection after a write took effect, instead of answering.
	LostAnswer Kind = "answer lost"
	// Repeat sends an event of a watch twice.
	Repeat Kind = "event repeated"
	// Hold holds an event and all after it back, as a lagging cache of the API server does.
	Hold Kind = "event held back"
	// Break closes a watch in the middle of an event. The client resumes it where it was.
	Break Kind = "watch broken off"
	// Expire drops an event and all after it, and lets the client know that its resourceVersion has expired: by an event of type ERROR, or by an
	// answer of 410 when it asks for the rest.
	Expire Kind = "watch expired"
)

// Kinds are all kinds of faults that come by chance.
var Kinds = []Kind{Latency, TooMany, Conflict, ServerError, Unavailable, LostAnswer, Repeat, Hold, Break, Expire}

// Chances are how probable each kind of fault is, for each request or event that it can befall.
type Chances map[Kind]float64

// Set replaces the chances of faults. With none, no fault comes by chance.
func (p *Proxy) Set(chances Chances) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.chance = maps.Clone(chances)
}

// Next makes a kind of fault befall each of the next n requests or events that it can befall.
func (p *Proxy) Next(kind Kind, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forced[kind] = n
}

// Counts returns how many faults of each kind there have been.
func (p *Proxy) Counts() map[Kind]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// befalls decides whether a fault comes now, and counts it.
func (p *Proxy) befalls(kind Kind) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.forced[kind] > 0:
		p.forced[kind]--
	case p.chance[kind] == 0 || p.random.Float64() >= p.chance[kind]:
		return false
	}
	p.counts[kind]++
	return true
}

// upTo returns a random duration.
func (p *Proxy) upTo(most time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(p.random.Float64() * float64(most))
}

// refusal returns how the API server refuses a request, if it is to.
func (p *Proxy) refusal(r *http.Request) *apierrors.StatusError {
	const why = "a fault that was injected"
	switch {
	case p.befalls(TooMany):
		return apierrors.NewTooManyRequests(why, 1)
	case p.befalls(ServerError):
		return status(http.StatusInternalServerError, metav1.StatusReasonInternalError, why)
	case p.befalls(Unavailable):
		return apierrors.NewServiceUnavailable(why)
	case isWrite(r) && r.Method != http.MethodPost && p.befalls(Conflict):
		return apierrors.NewConflict(schema.GroupResource{}, lastOf(r.URL.Path), status(http.StatusConflict, metav1.StatusReasonConflict, why))
	case isWatch(r) && continues(r) && p.forgotten(r):
		return apierrors.NewResourceExpired(why)
	}
	return nil
}

func status(code int32, reason metav1.StatusReason, why string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: why,
	}}
}

// answer refuses a request as the API server does. Clients take JSON whatever they ask for.
func (p *Proxy) answer(w http.ResponseWriter, refused *apierrors.StatusError) {
	said := refused.Status()
	said.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	w.Header().Set("Content-Type", "application/json")
	if said.Code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(int(said.Code))
	if err := json.NewEncoder(w).Encode(said); err != nil {
		// The client has gone; there is no one left to tell.
		panic(http.ErrAbortHandler)
	}
}
