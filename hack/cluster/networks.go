package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"slices"

	"confrev.io/confrev/hack/cluster/network"
)

// network returns the one that a cluster was created with.
func (l layout) network(name string) (network.Network, error) {
	n, err := network.Read(l.networkFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return n, fmt.Errorf("cluster %q was created without a network for a real node: remove it with '%s down --name %[1]s', then create it again",
			name, project.command)
	}
	return n, err
}

// chooseNetwork returns a network that no other cluster has, and notes that a cluster that is about to be created has it. The caller holds the lock
// of the clusters. The machine has the addresses taken.
func (l layout) chooseNetwork(name string, taken []netip.Addr) (network.Network, error) {
	files, err := filepath.Glob(l.networkFile("*"))
	if err != nil {
		return network.Network{}, fmt.Errorf("list the networks of clusters: %w", err)
	}
	own := l.networkFile(name)
	others := slices.DeleteFunc(files, func(file string) bool { return file == own })
	return network.Choose(own, others, taken)
}
