package operator

import (
	"context"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// garbage is how much garbage may lie about before it is collected, in percent of what is in use; Go's default is 100. Most of what confrev keeps are
	// its caches, which stay as they are, so little processor time buys much memory.
	garbage = 50
	// garbageAtStart is the same until confrev is first idle. While the caches fill and all workloads are looked at, most of what is allocated is thrown away
	// again: it would leave holes between what stays.
	garbageAtStart = 25
	// memoryLimit is the environment variable with the container's limit of memory, in bytes. The chart sets it.
	memoryLimit = "MEMORY_LIMIT"
	// ofLimit is how much of the limit Go may use, in percent. The rest is for the pages of the program.
	ofLimit = 90
)

// tuneMemory makes Go collect garbage early enough to stay within the container's limit, where it can. Go's own variables win. The caller calls started
// once what a start takes was returned.
func tuneMemory(getenv func(string) string) (started func()) {
	if limit, err := strconv.ParseInt(getenv(memoryLimit), 10, 64); err == nil && limit > 0 && limit < math.MaxInt64/100 && getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit * ofLimit / 100)
	}
	if getenv("GOGC") != "" {
		return func() {}
	}
	debug.SetGCPercent(garbageAtStart)
	return func() { debug.SetGCPercent(garbage) }
}

// lookAtMemory is how often to look whether there is memory to return.
const lookAtMemory = time.Second

// returnMemory returns memory to the system that confrev took while it was busy, once it no longer is. Go would keep most of it: as much as its next
// collection of garbage may take, and a tenth. It calls started each time. It runs once the caches are full.
func returnMemory(every time.Duration, started func()) manager.Runnable {
	return everywhere(func(ctx context.Context) error {
		look := time.NewTicker(every)
		defer look.Stop()
		var m memory
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-look.C:
			}
			if m.due(readHeap()) {
				debug.FreeOSMemory()
				m.returned(readHeap())
				started()
			}
		}
	})
}

// heap is what the heap holds, and what was ever allocated in it, in bytes.
type heap struct{ held, allocated uint64 }

func readHeap() heap {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
	}
	metrics.Read(samples)
	return heap{held: samples[0].Value.Uint64() + samples[1].Value.Uint64() + samples[2].Value.Uint64(), allocated: samples[3].Value.Uint64()}
}

// memory decides when to return memory.
type memory struct {
	last heap
	// least is what was held when memory was last returned.
	least uint64
}

// due reports whether confrev does little, and could return a quarter of what it holds. Between two looks, it may allocate a hundredth of that, and what an answer
// to a request for metrics takes.
func (m *memory) due(now heap) bool {
	const answer = 4 << 20
	idle := m.last != (heap{}) && now.allocated-m.last.allocated < now.held/100+answer
	m.last = now
	return idle && now.held > m.least/4*5
}

func (m *memory) returned(now heap) { m.last, m.least = now, now.held }

// everywhere is a runnable of all replicas, whether they lead or not.
type everywhere func(context.Context) error

func (e everywhere) Start(ctx context.Context) error { return e(ctx) }

// NeedLeaderElection returns false.
func (everywhere) NeedLeaderElection() bool { return false }
