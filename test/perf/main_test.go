//go:build perf

// Package perf measures confrev on a real control plane (hack/cluster), with the chart's own rights. Its benchmarks
// print figures and never fail for slowness: what a machine makes of them depends on what else runs on it, so each also
// measures, in the same run, the floor that no one could beat.
//
// Environment: CONFREV_BENCH_CLUSTER names the cluster; CONFREV_BENCH_BINARY measures that confrev instead of this
// tree's; CONFREV_BENCH_FLAGS are further flags for it, separated by spaces.
package perf

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/test/env"
)

var (
	cluster *env.Cluster
	binary  string
	// flags are further ones for every confrev that is measured.
	flags []string
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // else the client complains amid the figures
	if err := setUp(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "perf:", err)
		os.Exit(1)
	}
	code := m.Run()
	if code == 0 {
		if err := cluster.Discard(); err != nil {
			fmt.Fprintln(os.Stderr, "perf:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func setUp(ctx context.Context) (err error) {
	if cluster, err = env.Up(ctx, cmp.Or(os.Getenv("CONFREV_BENCH_CLUSTER"), "bench"), os.Stderr, env.ArgoRollouts); err != nil {
		return err
	}
	if err := os.Setenv("KUBECONFIG", cluster.Kubeconfig); err != nil {
		return err
	}
	if err := cluster.Install(ctx, "secrets.enabled=true"); err != nil {
		return err
	}
	flags = strings.Fields(os.Getenv("CONFREV_BENCH_FLAGS"))
	if binary = os.Getenv("CONFREV_BENCH_BINARY"); binary == "" {
		// Without the race detector, which makes all slower.
		binary, err = cluster.Build(ctx, false)
	}
	return err
}
