package main

import (
	"os"
	"path/filepath"
	"testing"

	"confrev.io/confrev/hack/cluster/network"
)

func TestNetworksOfClustersDiffer(t *testing.T) {
	l := layout{state: t.TempDir()}
	choose := func(name string) network.Network {
		t.Helper()
		if err := os.MkdirAll(l.cluster(name), 0o755); err != nil {
			t.Fatal(err)
		}
		n, err := l.chooseNetwork(name, nil)
		checkError(t, err, "")
		return n
	}
	one, two := choose("one"), choose("two")
	if one.Services().Overlaps(two.Services()) {
		t.Errorf("%s and %s overlap", one.Services(), two.Services())
	}
	if again := choose("one"); again != one {
		t.Errorf("created again, it gets %s instead of %s", again.Services(), one.Services())
	}
	if err := os.RemoveAll(filepath.Dir(l.networkFile("one"))); err != nil {
		t.Fatal(err)
	}
	if three := choose("three"); three != one {
		t.Errorf("it gets %s, and not %s, which is free again", three.Services(), one.Services())
	}
	if found, err := l.network("two"); err != nil || found != two {
		t.Errorf("the network of a cluster is %s, and is found as %s (%v)", two.Services(), found.Services(), err)
	}
	_, err := l.network("one")
	checkError(t, err, "remove it with")
}
