package env

import (
	"net"
	"os"
	"strings"
	"testing"
)

// An address is not one that an outgoing connection may get, and no other than its process gets it.
func TestFreeAddress(t *testing.T) {
	first, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil && strings.HasPrefix(string(kernel), "32768") && ports.first+portsEach > 32768 {
		t.Errorf("%s may be taken by an outgoing connection (%s)", first, kernel)
	}
	listener, err := net.Listen("tcp", first)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	seen := map[string]bool{}
	for range portsEach {
		another, err := FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		if seen[another] && len(seen) < portsEach-1 || another == first {
			t.Fatalf("%s again, after %d others", another, len(seen))
		}
		seen[another] = true
	}
	mine := ports.lock
	ports.lock = nil
	defer func() { ports.lock = mine }()
	another, err := FreeAddress()
	if err != nil || seen[another] || another == first {
		t.Errorf("another process gets %s, %v", another, err)
	}
}
