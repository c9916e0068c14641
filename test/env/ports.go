package env

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// firstPort is the first that tests use. All are below those that the kernel gives to outgoing connections (32768 by default): one
	// of those could take the port of a confrev that is about to start again.
	firstPort = 20000
	// portsEach is how many ports a process has to itself, and portRanges how many processes can have some.
	portsEach, portRanges = 250, 50
)

// ports has the ports of this process.
var ports struct {
	sync.Mutex
	// lock is open, and locked, while this process lives.
	lock        *os.File
	first, used int
}

// FreeAddress returns an address of this machine on which nothing listens. No other process of the tests gets it, and this one only after
// many others.
func FreeAddress() (string, error) {
	ports.Lock()
	defer ports.Unlock()
	if err := reservePorts(); err != nil {
		return "", err
	}
	var errs []error
	for range portsEach {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports.first+ports.used%portsEach))
		ports.used++
		listener, err := net.Listen("tcp", address)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		return address, listener.Close()
	}
	return "", fmt.Errorf("no port is free: %w", errors.Join(errs...))
}

// reservePorts makes sure that this process has a range of ports.
func reservePorts() error {
	if ports.lock != nil {
		return nil
	}
	for i := range portRanges {
		lock, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprintf("confrev-ports-%d.lock", i)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return fmt.Errorf("reserve ports: %w", err)
		}
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			ports.lock, ports.first = lock, firstPort+i*portsEach
			return nil
		}
		if err := lock.Close(); err != nil {
			return fmt.Errorf("reserve ports: %w", err)
		}
	}
	return fmt.Errorf("%d processes use all ports of the tests", portRanges)
}
