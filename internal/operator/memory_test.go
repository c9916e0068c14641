package operator

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestMemoryStaysWithinTheLimit(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	defer func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}()
	for name, test := range map[string]struct {
		env     map[string]string
		percent int
		limit   int64
	}{
		"without a limit":           {nil, 50, math.MaxInt64},
		"with a limit":              {map[string]string{"MEMORY_LIMIT": "1000000000"}, 50, 900_000_000},
		"with a limit that is none": {map[string]string{"MEMORY_LIMIT": "0"}, 50, math.MaxInt64},
		"with one beyond reason":    {map[string]string{"MEMORY_LIMIT": "9223372036854775807"}, 50, math.MaxInt64},
		"with one that is no number": {
			map[string]string{"MEMORY_LIMIT": "512Mi"}, 50, math.MaxInt64},
		"with Go's own variables": {map[string]string{"MEMORY_LIMIT": "1000000000", "GOGC": "200", "GOMEMLIMIT": "2GiB"}, 100, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			debug.SetGCPercent(100)
			debug.SetMemoryLimit(math.MaxInt64)
			tuneMemory(func(key string) string { return test.env[key] })
			if got := debug.SetGCPercent(100); got != test.percent {
				t.Errorf("garbage of %d %%, want %d", got, test.percent)
			}
			if got := debug.SetMemoryLimit(-1); got != test.limit {
				t.Errorf("limit %d, want %d", got, test.limit)
			}
		})
	}
}
