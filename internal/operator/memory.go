package operator

import (
	"context"
	"math"
	"runtime/debug"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// garbage is how much garbage may lie about before it is collected, in percent of what is in use; Go's default is 100. Most of what confrev keeps are
	// its caches, which stay as they are, so little processor time buys much memory.
	garbage = 50
	// memoryLimit is the environment variable with the container's limit of memory, in bytes. The chart sets it.
	memoryLimit = "MEMORY_LIMIT"
	// ofLimit is how much of the limit Go may use, in percent. The rest is for the pages of the program.
	ofLimit = 90
)

// tuneMemory makes Go collect garbage early enough to stay within the container's limit, where it can. Go's own variables win.
func tuneMemory(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	if limit, err := strconv.ParseInt(getenv(memoryLimit), 10, 64); err == nil && limit > 0 && limit < math.MaxInt64/100 && getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit * ofLimit / 100)
	}
}

// returnMemory returns the memory that reading the lists has taken to the system, once the caches have caught up. Go would keep most of it for minutes.
func returnMemory(c cache.Cache) manager.Runnable {
	return everywhere(func(ctx context.Context) error {
		if c.WaitForCacheSync(ctx) {
			debug.FreeOSMemory()
		}
		return nil
	})
}

// everywhere is a runnable of all replicas, whether they lead or not.
type everywhere func(context.Context) error

func (e everywhere) Start(ctx context.Context) error { return e(ctx) }

// NeedLeaderElection returns false.
func (everywhere) NeedLeaderElection() bool { return false }
