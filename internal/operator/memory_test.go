package operator

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"
)

func TestMemoryStaysWithinTheLimit(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	defer func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}()
	for name, test := range map[string]struct {
		env               map[string]string
		starting, started int
		limit             int64
	}{
		"without a limit":           {nil, 25, 50, math.MaxInt64},
		"with a limit":              {map[string]string{"MEMORY_LIMIT": "1000000000"}, 25, 50, 900_000_000},
		"with a limit that is none": {map[string]string{"MEMORY_LIMIT": "0"}, 25, 50, math.MaxInt64},
		"with one beyond reason":    {map[string]string{"MEMORY_LIMIT": "9223372036854775807"}, 25, 50, math.MaxInt64},
		"with one that is no number": {
			map[string]string{"MEMORY_LIMIT": "512Mi"}, 25, 50, math.MaxInt64},
		"with Go's own variables": {map[string]string{"MEMORY_LIMIT": "1000000000", "GOGC": "200", "GOMEMLIMIT": "2GiB"}, 100, 100, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			debug.SetGCPercent(100)
			debug.SetMemoryLimit(math.MaxInt64)
			started := tuneMemory(func(key string) string { return test.env[key] })
			percent := func() int {
				now := debug.SetGCPercent(100)
				debug.SetGCPercent(now)
				return now
			}
			if got := percent(); got != test.starting {
				t.Errorf("garbage of %d %% during the start, want %d", got, test.starting)
			}
			started()
			if got := percent(); got != test.started {
				t.Errorf("garbage of %d %%, want %d", got, test.started)
			}
			if got := debug.SetMemoryLimit(-1); got != test.limit {
				t.Errorf("limit %d, want %d", got, test.limit)
			}
		})
	}
}

// Memory is returned once confrev is idle, and not again before it could return much.
func TestMemoryIsReturnedOnceConfrevIsIdle(t *testing.T) {
	const mebibyte = 1 << 20
	var m memory
	for _, look := range []struct {
		name            string
		held, allocated uint64
		due             bool
		// least is what is held once memory was returned.
		least uint64
	}{
		{"nothing to compare with", 300, 1, false, 0},
		{"busy", 300, 1100, false, 0},
		{"idle", 300, 1101, true, 200},
		{"nothing new", 200, 1102, false, 0},
		{"a little more", 249, 1103, false, 0},
		{"a quarter more, but busy", 251, 1110, false, 0},
		{"a quarter more", 251, 1111, true, 210},
		{"less than before", 100, 1112, false, 0},
	} {
		if due := m.due(heap{look.held * mebibyte, look.allocated * mebibyte}); due != look.due {
			t.Errorf("%s: due %v", look.name, due)
		}
		if look.least > 0 {
			m.returned(heap{look.least * mebibyte, look.allocated * mebibyte})
		}
	}
}

func TestMemoryIsReturned(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	used := make([]byte, 64<<20)
	before := readHeap().held
	runtime.KeepAlive(used)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	var started atomic.Bool
	go func() { done <- returnMemory(time.Millisecond, func() { started.Store(true) }).Start(ctx) }()
	for deadline := time.Now().Add(time.Minute); readHeap().held > before-64<<20; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are held, before %d", readHeap().held, before)
		}
	}
	cancel()
	if err := <-done; err != nil || !started.Load() {
		t.Errorf("the start is over: %t, %v", started.Load(), err)
	}
}
