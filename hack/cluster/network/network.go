// Package network gives clusters addresses, and a real node a network of its own.
package network

import (
	"fmt"
	"net/netip"
)

// all is divided among the clusters. It is reserved for benchmarks of network devices (RFC 2544), so nothing else is there.
var all = netip.MustParsePrefix("198.18.0.0/15")

// bits is how long the prefix of one cluster's part is: four times 256 addresses, of which Services, pods, and the
// link between node and machine have one each.
const bits = 22

// Network is a cluster's own part of all. Only a real node brings it to life: until then, its addresses are names.
type Network struct{ prefix netip.Prefix }

// Nth returns the n-th of them.
func Nth(n int) Network {
	return Network{netip.PrefixFrom(after(all.Addr(), n<<(32-bits)), bits)}
}

// after returns the address that is n higher.
func after(address netip.Addr, n int) netip.Addr {
	bytes := address.As4()
	sum := int(bytes[0])<<24 + int(bytes[1])<<16 + int(bytes[2])<<8 + int(bytes[3]) + n
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// index returns which one it is, from 0.
func (n Network) index() int {
	bytes, first := n.prefix.Addr().As4(), all.Addr().As4()
	return (int(bytes[1]-first[1])<<8 + int(bytes[2])) >> (24 - bits)
}

// Services returns the addresses of Services.
func (n Network) Services() netip.Prefix { return netip.PrefixFrom(n.prefix.Addr(), 24) }

// APIService returns the address of Service "kubernetes": Kubernetes gives it the first one.
func (n Network) APIService() netip.Addr { return after(n.prefix.Addr(), 1) }

// DNS returns the address that a cluster's DNS would have. Nothing answers there.
func (n Network) DNS() netip.Addr { return after(n.prefix.Addr(), 10) }

// Pods returns the addresses of pods.
func (n Network) Pods() netip.Prefix { return netip.PrefixFrom(after(n.prefix.Addr(), 256), 24) }

// Machine returns the address of the machine's end of the link to the node.
func (n Network) Machine() netip.Addr { return after(n.prefix.Addr(), 2*256+1) }

// Node returns the address of the node's end of the link.
func (n Network) Node() netip.Addr { return after(n.prefix.Addr(), 2*256+2) }

// linkBits is how long the prefix of the link's addresses is.
const linkBits = 30

// Device returns the name of the machine's end of the link, which begins with prefix. Linux allows 15 characters.
func (n Network) Device(prefix string) string { return fmt.Sprintf("%.11s%d", prefix, n.index()) }

// MarshalText returns the text that Parse reads.
func (n Network) MarshalText() ([]byte, error) { return n.prefix.MarshalText() }

// UnmarshalText does what Parse does.
func (n *Network) UnmarshalText(text []byte) (err error) {
	*n, err = Parse(string(text))
	return err
}

// Parse reads what MarshalText writes.
func Parse(text string) (Network, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return Network{}, err
	}
	if prefix.Bits() != bits || prefix != prefix.Masked() || !all.Contains(prefix.Addr()) {
		return Network{}, fmt.Errorf("%s is not a /%d of %s", text, bits, all)
	}
	return Network{prefix}, nil
}

// FirstFree returns the first network that has none of these addresses.
func FirstFree(taken []netip.Addr) (Network, error) {
	used := map[int]bool{}
	for _, address := range taken {
		if all.Contains(address) {
			used[Network{netip.PrefixFrom(address, bits)}.index()] = true
		}
	}
	for i := range 1 << (bits - all.Bits()) {
		if !used[i] {
			return Nth(i), nil
		}
	}
	return Network{}, fmt.Errorf("all networks of %s are taken: remove clusters", all)
}
