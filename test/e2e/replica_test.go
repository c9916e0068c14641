//go:build e2e

package e2e

import (
	"testing"

	"confrev.io/confrev/test/env"
)

// replica is one of several confrevs that elect a leader.
type replica struct {
	*env.Confrev
	stopped bool
}

func newReplica(t *testing.T, name string, args ...string) *replica {
	t.Helper()
	c, err := cluster.Confrev(t.Context(), name, binary, append([]string{"--leader-elect", "--settle", "0s", "--grace", grace.String()}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &replica{Confrev: c}
}

func (r *replica) stop(t *testing.T) {
	t.Helper()
	if r.stopped {
		return
	}
	r.stopped = true
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
}
