//go:build reliability

// Package reliability tests confrev on a real control plane (hack/cluster) under every fault: those of the network between confrev and the API server
// (package faults), the end of its process after each of its writes, the loss of its leader, and restarts of the control plane. Whatever happens,
// the end must be the same as without it.
//
// The tests run one after the other, each with a confrev of its own, since they end it. CONFREV_RELIABILITY_CLUSTER names the cluster;
// CONFREV_RELIABILITY_EVENTS=none leaves out the crash points at events, which halves the time that they take.
package reliability

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/faults"
)

// settle is short, since a process that ends begins to settle again, and long enough for what belongs together to be one rollout. grace is the
// shortest that confrev takes.
const (
	settle = 200 * time.Millisecond
	grace  = 5 * time.Second
)

var (
	cluster *env.Cluster
	binary  string
)

func TestMain(m *testing.M) {
	code, err := 1, setUp(context.Background())
	if err == nil {
		code = m.Run()
	}
	cluster.Exit(code, err)
}

func setUp(ctx context.Context) (err error) {
	// A node takes 110 pods.
	if cluster, err = env.Up(ctx, cmp.Or(os.Getenv("CONFREV_RELIABILITY_CLUSTER"), "reliability"), os.Stderr, "--nodes=10"); err != nil {
		return err
	}
	if err := cluster.Install(ctx, "settle="+settle.String(), "grace="+grace.String()); err != nil {
		return err
	}
	// Without the race detector: it starts a hundred times.
	binary, err = cluster.Build(ctx, "confrev", false)
	return err
}

// member is a confrev behind a proxy of its own, so that faults befall it alone, and its requests are known from those of others.
type member struct {
	*testing.T
	*env.Confrev
	proxy *faults.Proxy
	// down is true while it is known not to run.
	down atomic.Bool
}

// prepare makes a confrev that is not started yet.
func prepare(t *testing.T, name string, options faults.Options, flags ...string) *member {
	t.Helper()
	return prepareBuilt(t, binary, name, options, flags...)
}

// prepareBuilt does the same with another binary.
func prepareBuilt(t *testing.T, binary, name string, options faults.Options, flags ...string) *member {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	proxy, err := faults.New(cluster.Config, options)
	must(err)
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	direct, err := cluster.ServiceAccountKubeconfig(t.Context(), env.Namespace, "confrev")
	must(err)
	through := filepath.Join(cluster.Dir, name+".kubeconfig")
	must(proxy.Kubeconfig(direct, through))
	flags = append([]string{
		"--kubeconfig", through, "--settle", settle.String(), "--grace", grace.String(),
		"--revisions-per-hour", "1000", "--rollouts-per-hour", "1000",
	}, flags...)
	confrev, err := cluster.Confrev(t.Context(), name, binary, flags...)
	must(err)
	return &member{T: t, Confrev: confrev, proxy: proxy}
}

// start starts it, and ends it with the test. It must end well then, unless the test has ended it.
func (m *member) start() {
	m.Helper()
	if err := m.Start(m.Context()); err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() {
		if m.Ended() {
			return
		}
		if err := m.Stop(); err != nil {
			m.Errorf("confrev did not end well, see %s: %v", m.Log, err)
		}
	})
}

// alone starts the only confrev, and waits until the API server asks it about workloads.
func alone(t *testing.T, name string, options faults.Options, flags ...string) *member {
	t.Helper()
	m := prepare(t, name, options, flags...)
	m.start()
	if err := cluster.WaitWebhook(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}
