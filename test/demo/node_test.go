//go:build node

package main

import (
	"cmp"
	"os"
	"testing"
)

// The story that 'make demo-node' tells is the test of confrev as users have it: each of its steps checks what it claims.
func TestTheStoryOfARealNode(t *testing.T) {
	s := newStage(t.Context(), nodeStory)
	if err := s.tell(cmp.Or(os.Getenv("CONFREV_NODE_CLUSTER"), "node") + "-story"); err != nil {
		s.lookHere()
		t.Fatal(err)
	}
	if err := s.leave(); err != nil {
		t.Fatal(err)
	}
}
