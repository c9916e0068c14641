package revision

import (
	"context"
	"sync"
)

// rounds lets callers that ask for the same thing at the same time share an answer that is no older than their question: who asks while a
// round runs takes part in the next one. singleflight would give them the answer of the present one, which may have been read before.
// The zero value is ready to use.
type rounds[T any] struct {
	mu sync.Mutex
	// next and present are the rounds of a key: the one that has not begun, and the one that runs.
	next, present map[string]*round[T]
}

type round[T any] struct {
	done   chan struct{}
	answer T
	err    error
}

// join returns the answer of a round that begins after the call, or an error once ctx ends. The round asks on behalf of one of its callers, so
// it must not depend on which one that is, and ends by itself. The answer is shared: callers must not change it.
func (r *rounds[T]) join(ctx context.Context, key string, ask func() (T, error)) (T, error) {
	mine := r.coming(key, ask)
	select {
	case <-mine.done:
		return mine.answer, mine.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// coming returns the next round of a key.
func (r *rounds[T]) coming(key string, ask func() (T, error)) *round[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if mine := r.next[key]; mine != nil {
		return mine
	}
	if r.next == nil {
		r.next, r.present = map[string]*round[T]{}, map[string]*round[T]{}
	}
	mine := &round[T]{done: make(chan struct{})}
	r.next[key] = mine
	go r.run(key, r.present[key], mine, ask)
	return mine
}

// run runs a round once the one before it has ended.
func (r *rounds[T]) run(key string, before, mine *round[T], ask func() (T, error)) {
	if before != nil {
		<-before.done
	}
	r.mu.Lock()
	delete(r.next, key)
	r.present[key] = mine
	r.mu.Unlock()
	mine.answer, mine.err = ask()
	r.mu.Lock()
	delete(r.present, key)
	r.mu.Unlock()
	close(mine.done)
}
