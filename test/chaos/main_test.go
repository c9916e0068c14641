//go:build chaos

// Package chaos runs random histories against a real control plane (hack/cluster) and checks, while they run, what confrev
// promises whatever happens: users edit, deploy, roll back and delete, meddle with revisions, and confrev is killed,
// suspended and replaced.
//
// A history is data, drawn before anything happens, so that rapid can shrink one that fails. It is printed as a script. Each
// history has a namespace of its own, and many run at the same time against one confrev. A history that found a fault becomes a
// file in testdata; those run first.
//
// Environment: CONFREV_CHAOS_HISTORIES is how many histories run, CONFREV_CHAOS_PARALLEL how many at a time, CONFREV_CHAOS_SEED
// repeats a run, CONFREV_CHAOS_HISTORY is a file with the one history to run, CONFREV_CHAOS_CLUSTER names the cluster,
// CONFREV_CHAOS_BINARY is another confrev than this tree's, CONFREV_CHAOS_SHRINK bounds the time for shrinking a history that
// failed, and CONFREV_CHAOS_DIR is where the evidence of failures goes.
package chaos

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"confrev.io/confrev/test/env"
)

// The settle and grace times of the confrev under test. They are as short as they can be: a history takes as long as its waits.
const (
	settle = 100 * time.Millisecond
	grace  = 30 * time.Second
)

var (
	cluster *env.Cluster
	// failures is the folder for the evidence of histories that failed.
	failures string
	// seed is that of the run; each of the parallel tests derives its own from it.
	seed uint64
)

// number reads a number from the environment.
func number(name string, otherwise int) (int, error) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s=%s: want a number of 1 or more", name, text)
	}
	return n, nil
}

// histories and parallel are how many histories run, and how many at a time.
var histories, parallel int

func TestMain(m *testing.M) {
	code, err := run(m)
	cluster.Exit(code, err)
}

func options() (err error) {
	var errs [3]error
	histories, errs[0] = number("CONFREV_CHAOS_HISTORIES", 300)
	parallel, errs[1] = number("CONFREV_CHAOS_PARALLEL", 12)
	seed = rand.Uint64N(1<<40) + 1
	if text := os.Getenv("CONFREV_CHAOS_SEED"); text != "" {
		seed, errs[2] = strconv.ParseUint(text, 10, 64)
	}
	parallel = min(parallel, histories)
	// A history is not cut short, so that the bound is one of attempts. Their own seeds say how to repeat them, in no file.
	shrink := cmp.Or(os.Getenv("CONFREV_CHAOS_SHRINK"), "3m")
	return errors.Join(errors.Join(errs[:]...), flag.Set("rapid.nofailfile", "true"), flag.Set("rapid.shrinktime", shrink),
		flag.Set("rapid.checks", strconv.Itoa((histories+parallel-1)/parallel)), flag.Set("test.parallel", strconv.Itoa(parallel)))
}

func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	flag.Parse()
	if err := options(); err != nil {
		return 1, err
	}
	if cluster, err = env.Up(ctx, cmp.Or(os.Getenv("CONFREV_CHAOS_CLUSTER"), "chaos"), os.Stderr, env.ArgoRollouts); err != nil {
		return 1, err
	}
	failures = cmp.Or(os.Getenv("CONFREV_CHAOS_DIR"), filepath.Join(cluster.Dir, "failures"))
	if err := os.MkdirAll(failures, 0o755); err != nil {
		return 1, err
	}
	if err := cluster.Install(ctx, "secrets.enabled=true", "failFast.enabled=true", "failFast.evictStuckPods=true"); err != nil {
		return 1, err
	}
	binary := os.Getenv("CONFREV_CHAOS_BINARY")
	if binary == "" {
		if binary, err = cluster.Build(ctx, "confrev", true); err != nil {
			return 1, err
		}
	}
	if err := process.start(ctx, binary); err != nil {
		return 1, err
	}
	fmt.Fprintf(os.Stderr, "chaos: seed %d, %d histories, %d at a time; confrev logs to %s, evidence of failures goes to %s\n",
		seed, histories, parallel, process.leader.Log, failures)
	began := time.Now()
	ended := total.progress(os.Stderr, time.NewTicker(time.Minute).C)
	unsupervised := process.supervise(ctx)
	code = m.Run()
	err = unsupervised()
	ended()
	total.report(os.Stdout, time.Since(began))
	return code, errors.Join(err, process.stop(ctx), process.checkLogs())
}
