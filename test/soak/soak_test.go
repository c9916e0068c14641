//go:build soak

package soak

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"confrev.io/confrev/test/env"
)

// The settle and grace times of the confrev under test: short, so that what waits for them turns over often.
const (
	settle = time.Second
	grace  = 10 * time.Second
)

var (
	cluster *env.Cluster
	confrev *env.Confrev
	// duration is how long the mix lasts, pause how long it waits between two steps.
	duration, pause time.Duration
	seed            uint64
)

// TestMain reads from the environment: CONFREV_SOAK_DURATION (1h), CONFREV_SOAK_PAUSE (500ms) and CONFREV_SOAK_SEED; CONFREV_SOAK_CLUSTER
// names the cluster.
func TestMain(m *testing.M) {
	code, err := 1, setUp(context.Background())
	if err == nil {
		code = m.Run()
		if !confrev.Ended() {
			err = confrev.Stop()
		}
	}
	cluster.Exit(code, err)
}

func setUp(ctx context.Context) (err error) {
	if duration, err = time.ParseDuration(cmp.Or(os.Getenv("CONFREV_SOAK_DURATION"), "1h")); err != nil {
		return fmt.Errorf("CONFREV_SOAK_DURATION: %w", err)
	}
	if pause, err = time.ParseDuration(cmp.Or(os.Getenv("CONFREV_SOAK_PAUSE"), "500ms")); err != nil {
		return fmt.Errorf("CONFREV_SOAK_PAUSE: %w", err)
	}
	seed = rand.Uint64N(1 << 40)
	if text := os.Getenv("CONFREV_SOAK_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			return fmt.Errorf("CONFREV_SOAK_SEED: %w", err)
		}
	}
	if cluster, err = env.Up(ctx, cmp.Or(os.Getenv("CONFREV_SOAK_CLUSTER"), "soak"), os.Stderr); err != nil {
		return err
	}
	confrev, err = cluster.StartConfrev(ctx, []string{"secrets.enabled=true"}, "--secrets", "--log-level", "info",
		"--settle", settle.String(), "--grace", grace.String(), "--revisions-per-hour", "100000", "--rollouts-per-hour", "100000")
	return err
}

// bounds are generous: what leaks grows by much more in an hour.
var bounds = []bound{
	{"anonymous MiB", 1.3, 16, false}, {"resident MiB", 1.3, 16, false}, {"goroutines", 1.2, 30, false}, {"open files", 1.2, 20, false},
	{"revisions", 1.3, 10, false}, {"queued", 1.5, 10, true},
}

// confrev works for a long time, and nothing that it takes grows without bound. In the end, each workload has the current content, and no
// revision is left that nothing uses.
func TestSoak(t *testing.T) {
	w := newWorld(t)
	w.populate()
	fmt.Printf("soak: seed %d, %s, a step every %s; confrev logs to %s\n", seed, duration, pause, confrev.Log)
	samples := w.mix(duration)
	for _, complaint := range growth(samples, bounds) {
		t.Error(complaint)
	}
	if confrev.Ended() {
		t.Fatalf("confrev has ended, see %s", confrev.Log)
	}
	w.comesToRest()
	fmt.Printf("soak: %s\n", w.steps())
}
