package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// place is the folder of one cluster's demo. It is not inside the cluster's own folder, so that confrev's process is
// still found when the cluster was removed without it.
type place struct{ name, dir string }

func (p place) log() string        { return filepath.Join(p.dir, "confrev.log") }
func (p place) pid() string        { return filepath.Join(p.dir, "confrev.pid") }
func (p place) kubeconfig() string { return filepath.Join(p.dir, "kubeconfig.yaml") }

// confrevKubeconfig has the rights of the chart's ServiceAccount only.
func (p place) confrevKubeconfig() string { return filepath.Join(p.dir, "confrev.kubeconfig") }

// command is this command for the same cluster, as the user types it.
func (p place) command(args ...string) string {
	words := append([]string{"go run ./test/demo"}, args...)
	if p.name != "confrev" {
		words = append(words, "--name", p.name)
	}
	return strings.Join(words, " ")
}

// nameFormat is that of hack/cluster: the name becomes a folder, which is removed in the end.
var nameFormat = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`)

// claimPlace makes the folder and takes it for this process alone.
func claimPlace(name string) (p place, unlock func(), err error) {
	if !nameFormat.MatchString(name) {
		return p, nil, fmt.Errorf("%q cannot name a cluster: use 1 to 40 lower-case letters, digits and inner hyphens", name)
	}
	state, err := stateDir()
	if err != nil {
		return p, nil, err
	}
	p = place{name: name, dir: filepath.Join(state, "confrev", "demo", name)}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return p, nil, err
	}
	// Beside the folder, which `down` removes. Go opens files close-on-exec, so that confrev does not inherit the lock.
	file, err := os.OpenFile(p.dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return p, nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return p, nil, errors.Join(fmt.Errorf("another demo is at work in cluster %s: wait for it, or choose another --name", name), file.Close())
	}
	return p, func() { _ = file.Close() }, nil
}

// stateDir is where hack/cluster, too, keeps what lives on: $XDG_STATE_HOME or its default.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find a folder for the demo (set HOME or XDG_STATE_HOME): %w", err)
	}
	return filepath.Join(home, ".local", "state"), nil
}
