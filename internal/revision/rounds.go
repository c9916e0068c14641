package revision

import (
	"context"
	"sync"
)

// rounds lets callers that need the same thing done at the same time share one doing: who joins while a round runs takes part in the next one,
// with all others who do. So what a round reads is no older than any of its callers' questions, and what it writes can be for all of them.
// singleflight would give a caller the answer of the present one, which knows nothing of the caller. The zero value is ready to use.
type rounds[I, T any] struct {
	mu sync.Mutex
	// next and present are the rounds of a key: the one that has not begun, and the one that runs.
	next, present map[string]*round[I, T]
}

type round[I, T any] struct {
	// items are what its callers brought. They are complete once the round runs.
	items  []I
	done   chan struct{}
	answer T
	err    error
}

// join takes part in a round that begins after the call, and returns its answer, or an error once ctx ends. The round does what one of its
// callers gave as do, so that must not depend on which one that is, and must end by itself. The answer is shared: callers must not change it.
func (r *rounds[I, T]) join(ctx context.Context, key string, item I, do func(items []I) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		// A round may write, which this caller does not ask for any longer.
		return none, err
	}
	mine := r.coming(key, item, do)
	select {
	case <-mine.done:
		return mine.answer, mine.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// coming returns the next round of a key, with the caller's item in it.
func (r *rounds[I, T]) coming(key string, item I, do func(items []I) (T, error)) *round[I, T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if mine := r.next[key]; mine != nil {
		mine.items = append(mine.items, item)
		return mine
	}
	if r.next == nil {
		r.next, r.present = map[string]*round[I, T]{}, map[string]*round[I, T]{}
	}
	mine := &round[I, T]{items: []I{item}, done: make(chan struct{})}
	r.next[key] = mine
	go r.run(key, r.present[key], mine, do)
	return mine
}

// run runs a round once the one before it has ended.
func (r *rounds[I, T]) run(key string, before, mine *round[I, T], do func(items []I) (T, error)) {
	if before != nil {
		<-before.done
	}
	r.mu.Lock()
	delete(r.next, key)
	r.present[key] = mine
	r.mu.Unlock()
	mine.answer, mine.err = do(mine.items)
	r.mu.Lock()
	delete(r.present, key)
	r.mu.Unlock()
	close(mine.done)
}
