package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
)

// Namespace is the network namespace of a node: a thread that is in it, and does what it is given. The namespace ends with the last
// process in it, and with it the pods' network, kube-proxy's rules and the link to the machine, however the node ends.
type Namespace chan<- func()

// Enter makes a network namespace and a thread in it.
func Enter() (Namespace, error) {
	work, entered := make(chan func()), make(chan error)
	go func() {
		// Never unlocked: no other goroutine may get this thread.
		runtime.LockOSThread()
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		entered <- err
		if err == nil {
			for do := range work {
				do()
			}
		}
	}()
	if err := <-entered; err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	return work, nil
}

// Run does something in the namespace. Processes that it starts are in there, and so are sockets that it opens.
func (n Namespace) Run(do func() error) error {
	done := make(chan error)
	n <- func() { done <- do() }
	return <-done
}

// peer is the name of the node's end of the link to the machine.
const peer = "eth0"

// Join links the node to the machine, as if it were another machine at the end of a cable, and routes Services and pods through the
// node: kube-proxy is there. The machine itself needs no rules for packets. Its end of the link is the device.
func (n Namespace) Join(own Network, device string) error {
	var namespace *os.File
	err := n.Run(func() (err error) {
		namespace, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return fmt.Errorf("find the node's network namespace: %w", err)
	}
	defer func() { _ = namespace.Close() }()
	if err := waitGone(device); err != nil {
		return err
	}
	link := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: device},
		PeerName:  peer, PeerNamespace: netlink.NsFd(namespace.Fd()),
	}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("make a pair of virtual network devices (veth): %w", err)
	}
	if err := configure(device, netip.PrefixFrom(own.Machine(), linkBits)); err != nil {
		return err
	}
	err = n.Run(func() error {
		return errors.Join(configure("lo", netip.Prefix{}), configure(peer, netip.PrefixFrom(own.Node(), linkBits)),
			// From the machine to pods, and from pods to the machine.
			os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644))
	})
	if err != nil {
		return fmt.Errorf("in the node's network namespace: %w", err)
	}
	return errors.Join(route(own.Services(), own.Node()), route(own.Pods(), own.Node()))
}

// waitGone waits until the kernel has removed the link of a node that was killed just now. A link that stays is another's.
func waitGone(device string) error {
	for range 100 {
		_, err := netlink.LinkByName(device)
		if _, gone := errors.AsType[netlink.LinkNotFoundError](err); gone {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for network device %s: %w", device, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("network device %s exists: a cluster of another user or folder has the same network; create this cluster again to get another", device)
}

// configure switches a network device on, with an address if there is one.
func configure(device string, address netip.Prefix) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find network device %s: %w", device, err)
	}
	if address.IsValid() {
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(address)}); err != nil {
			return fmt.Errorf("give network device %s the address %s: %w", device, address, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("switch network device %s on: %w", device, err)
	}
	return nil
}

func route(to netip.Prefix, via netip.Addr) error {
	if err := netlink.RouteAdd(&netlink.Route{Dst: ipNet(to), Gw: via.AsSlice()}); err != nil {
		return fmt.Errorf("route %s to the node: %w", to, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// ForwardAPI lets the node reach the API server, which listens on loopback only, at the machine's end of the link, on the same port. Only
// what comes through the link gets there.
func ForwardAPI(own Network, device string, port int) error {
	bound := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		errControl := c.Control(func(fd uintptr) { err = syscall.BindToDevice(int(fd), device) })
		return errors.Join(errControl, err)
	}}
	listener, err := bound.Listen(context.Background(), "tcp", netip.AddrPortFrom(own.Machine(), uint16(port)).String())
	if err != nil {
		return fmt.Errorf("forward connections to the API server: %w", err)
	}
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				continue // out of files, or the client gave up
			}
			go forward(from.(*net.TCPConn), netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port)))
		}
	}()
	return nil
}

// forward connects a connection with another one, until both sides have said all.
func forward(from *net.TCPConn, address netip.AddrPort) {
	defer func() { _ = from.Close() }()
	to, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(address))
	if err != nil {
		return // the client sees a connection that ends, as it would if the API server ended
	}
	defer func() { _ = to.Close() }()
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(from, to)
		_ = from.CloseWrite()
	}()
	_, _ = io.Copy(to, from)
	_ = to.CloseWrite()
	<-back
}

// trialRules are of every sort that kube-proxy makes.
const trialRules = `table ip trial {
	map services { type ipv4_addr . inet_proto . inet_service : verdict; }
	chain endpoint { meta l4proto tcp dnat to 198.18.0.1:80; }
	chain prerouting { type nat hook prerouting priority dstnat; ip daddr . meta l4proto . th dport vmap @services; }
	chain output { type nat hook output priority -100; fib daddr type local numgen random mod 1 vmap { 0 : goto endpoint }; }
	chain postrouting { type nat hook postrouting priority srcnat; ct mark 0x4000 masquerade fully-random; }
	chain forward { type filter hook forward priority filter; ct state new reject; }
}`

// Try returns an error that says what of a node's network is missing on this machine, given the command nft. It is called in a network namespace that takes the
// machine's place.
func (n Namespace) Try(nft *exec.Cmd) error {
	if err := n.Join(Nth(0), "trial"); err != nil {
		return err
	}
	return n.Run(func() error {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "trial"}}
		if err := netlink.LinkAdd(bridge); err != nil {
			return fmt.Errorf("make a network bridge: %w", err)
		}
		nft.Args = append(nft.Args, "-f", "-")
		nft.Stdin = strings.NewReader(trialRules)
		if out, err := nft.CombinedOutput(); err != nil {
			reason, _, _ := strings.Cut(string(out), "\n")
			return fmt.Errorf("make rules of nftables as kube-proxy does: %w: %s", err, reason)
		}
		return nil
	})
}
