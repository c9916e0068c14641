package reconcile

import (
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Backlog knows how many workloads are worked on or wait for their turn, so that what can wait lets them go first. The zero value knows of
// none.
type Backlog struct {
	working atomic.Int64
	mu      sync.Mutex
	queues  []workQueue
}

type workQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// few is how many workloads may be worked on or wait for their turn while nothing else is put off for them.
const few = 16

// Long reports whether there is so much to do that what can wait should let it go first.
func (b *Backlog) Long() bool {
	working := int(b.working.Load())
	return working > few || working+b.waiting() > few
}

// work notes that a workload is worked on until the returned function is called.
func (b *Backlog) work() (done func()) {
	b.working.Add(1)
	return func() { b.working.Add(-1) }
}

// waiting returns how many workloads of all kinds could be worked on now if there were more workers.
func (b *Backlog) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	// What is left in a queue when its loop ends waits for nothing.
	b.queues = slices.DeleteFunc(b.queues, workQueue.ShuttingDown)
	waiting := 0
	for _, q := range b.queues {
		waiting += q.Len()
	}
	return waiting
}

// queue makes the queue of a loop, of the type that controllers have by default.
func (b *Backlog) queue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workQueue {
	q := priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queues = append(b.queues, q)
	return q
}
