package network

import (
	"fmt"
	"net"
	"net/netip"
	"os"
)

// Read reads the network of a cluster from the file that Choose wrote.
func Read(file string) (Network, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Network{}, fmt.Errorf("find the network of a cluster: %w", err)
	}
	n, err := Parse(string(text))
	if err != nil {
		return Network{}, fmt.Errorf("find the network of a cluster: %s: %w", file, err)
	}
	return n, nil
}

// Choose writes to a file, and returns, a network for a cluster: one that is not in others, which are files of other clusters, and has none of
// the addresses taken.
func Choose(file string, others []string, taken []netip.Addr) (Network, error) {
	for _, other := range others {
		n, err := Read(other)
		if err != nil {
			return Network{}, err
		}
		taken = append(taken, n.prefix.Addr())
	}
	n, err := FirstFree(taken)
	if err != nil {
		return Network{}, err
	}
	if err := os.WriteFile(file, []byte(n.prefix.String()), 0o644); err != nil {
		return Network{}, fmt.Errorf("remember the network of a cluster: %w", err)
	}
	return n, nil
}

// Addresses returns those of this machine. Clusters of another user, or in another folder, have theirs too while their node runs.
func Addresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the machine's addresses: %w", err)
	}
	var addresses []netip.Addr
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			addresses = append(addresses, prefix.Addr())
		}
	}
	return addresses, nil
}
