package network

import (
	"net/netip"
	"strings"
	"testing"
)

func TestANetworkHasPlaceForServicesPodsAndTheLink(t *testing.T) {
	for _, i := range []int{0, 1, 63, 64, 127} {
		n := Nth(i)
		if got := n.index(); got != i {
			t.Errorf("network %d takes itself for %d", i, got)
		}
		parts := []netip.Prefix{n.Services(), n.Pods(), netip.PrefixFrom(n.Machine(), linkBits).Masked()}
		for j, part := range parts {
			if part != part.Masked() || !n.prefix.Contains(part.Addr()) || !all.Contains(part.Addr()) {
				t.Errorf("%s is no part of network %s", part, n.prefix)
			}
			for _, other := range parts[:j] {
				if part.Overlaps(other) {
					t.Errorf("%s and %s overlap", part, other)
				}
			}
		}
		if !parts[2].Contains(n.Node()) || n.Node() == n.Machine() {
			t.Errorf("%s and %s are not the ends of a link", n.Node(), n.Machine())
		}
		if len(n.Device("a-very-long-name")) > 15 {
			t.Errorf("%s is longer than the name of a device may be", n.Device("a-very-long-name"))
		}
	}
}

func TestTakenNetworksAreLeftAlone(t *testing.T) {
	var taken []netip.Addr
	for i := range 128 {
		taken = append(taken, Nth(i).Machine())
	}
	if n, err := FirstFree(taken); err == nil || !strings.Contains(err.Error(), "remove clusters") {
		t.Errorf("when all are taken, got %s (%v)", n.prefix, err)
	}
	n, err := FirstFree(append(taken[:7:7], append(taken[8:], netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("::1"))...))
	if err != nil || n != Nth(7) {
		t.Errorf("got %s (%v), want %s, the only one that is free", n.prefix, err, Nth(7).prefix)
	}
}

func TestOnlyNetworksOfClustersAreRead(t *testing.T) {
	for _, text := range []string{"", "198.18.4.0", "198.18.4.0/24", "198.18.5.0/22", "10.0.0.0/22"} {
		if n, err := Parse(text); err == nil {
			t.Errorf("%q is taken for %s", text, n.prefix)
		}
	}
}
