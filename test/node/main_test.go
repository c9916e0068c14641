//go:build node

// Package node tests what only a real kubelet can show: with which configuration containers really start and restart. It
// needs a machine on which 'go run -C hack/cluster . node check' succeeds.
//
// Tests that stop the node or confrev run first, one after the other; those that call t.Parallel share the running ones.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"confrev.io/confrev/test/env"
)

var (
	cluster *env.Cluster
	confrev *env.Confrev
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err == nil && code == 0 {
		err = cluster.Discard()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	name := cmp.Or(os.Getenv("CONFREV_NODE_CLUSTER"), "node")
	if cluster, err = env.Up(ctx, name, os.Stderr, env.RealNode, env.ArgoRollouts); err != nil {
		return 1, err
	}
	if err := cluster.Install(ctx, "secrets.enabled=true"); err != nil {
		return 1, err
	}
	binary, err := cluster.Build(ctx, false)
	if err != nil {
		return 1, err
	}
	confrev, err = cluster.Confrev(ctx, "confrev", binary, "--settle", "1s", "--secrets")
	if err != nil {
		return 1, err
	}
	if err := errors.Join(confrev.Start(ctx), cluster.WaitWebhook(ctx)); err != nil {
		return 1, err
	}
	fmt.Fprintln(os.Stderr, "node: confrev logs to", confrev.Log)
	defer func() { err = errors.Join(err, confrev.Stop()) }()
	return m.Run(), nil
}
