package revision

import (
	"context"
	"time"

	"confrev.io/confrev/internal/inflight"
)

// patience bounds what several callers share, since none of them may end it for the others.
const patience = 30 * time.Second

// share does something once for all callers that need it at the same time, and returns its answer, or an error once the caller's own context ends. A
// caller may get an answer that is older than its question, unlike with rounds. The answer is shared: callers must not change it.
func share[T any](ctx context.Context, s *Store, what string, do func(ctx context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		// It may be a write, which no one asks for any longer.
		return none, err
	}
	flight := s.flights.DoChan(apart(ctx, what), func() (any, error) {
		ctx, cancel := shared(ctx)
		defer cancel()
		return do(ctx)
	})
	select {
	case answer := <-flight:
		value, _ := answer.Val.(T)
		return value, answer.Err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// shared returns the context of what a caller does for others too: it does not end with that caller.
func shared(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), patience)
}

// apart names what callers share, so that urgent ones share it with each other only: the requests of the others may have to wait.
func apart(ctx context.Context, what string) string {
	if inflight.IsUrgent(ctx) {
		return "urgent " + what
	}
	return what
}
