//go:build node

// Package node tests what only a real kubelet can show: with which configuration containers really start and restart. It
// needs a machine on which 'go run ./hack/cluster node check' succeeds.
//
// Tests that stop the node run first, one after the other; those that call t.Parallel share the running one.
package node

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"testing"

	"confrev.io/confrev/test/env"
)

var cluster *env.Cluster

func TestMain(m *testing.M) {
	var err error
	name := cmp.Or(os.Getenv("CONFREV_NODE_CLUSTER"), "node")
	if cluster, err = env.Up(context.Background(), name, os.Stderr, env.RealNode); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
