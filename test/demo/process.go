package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"confrev.io/confrev/test/env"
)

// process is confrev as a process that outlives this command. (env.Confrev is one that belongs to its test: ^C would
// reach it.)
type process struct {
	place  place
	binary string
	health string
	args   []string
	// ended is closed when the process that was started last has ended.
	ended chan struct{}
}

// freeAddresses finds addresses that nobody listens on.
func freeAddresses() (addresses [3]string, err error) {
	for i := range addresses {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return addresses, err
		}
		// Closed only at the end, so that the next one differs.
		defer func() { _ = listener.Close() }()
		addresses[i] = listener.Addr().String()
	}
	return addresses, nil
}

func newProcess(p place, binary, namespace string, addresses [3]string, flags ...string) *process {
	return &process{
		place:  p,
		binary: binary,
		health: "http://" + addresses[0] + "/readyz",
		args: append([]string{
			"--kubeconfig", p.confrevKubeconfig(), "--namespace", namespace, "--log-level", "debug",
			"--health-probe-bind-address", addresses[0], "--metrics-bind-address", addresses[1],
			"--webhook-bind-address", addresses[2], "--webhook-dns-names", env.WebhookHost,
		}, flags...),
	}
}

const (
	// startTimeout and stopTimeout bound how long confrev may take to become ready, and to end.
	startTimeout = 30 * time.Second
	stopTimeout  = 15 * time.Second
)

// start starts confrev and waits until it is ready.
func (c *process) start(ctx context.Context) error {
	log, err := os.OpenFile(c.place.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(c.binary, c.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.place.dir, log, log
	// A session of its own: neither ^C nor the end of the terminal reaches it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start confrev: %w", err)
	}
	c.ended = make(chan struct{})
	go func() {
		// How it ended is in its log.
		_ = cmd.Wait()
		close(c.ended)
	}()
	pid := strconv.Itoa(cmd.Process.Pid)
	if err := os.WriteFile(c.place.pid(), []byte(pid+"\n"), 0o600); err != nil {
		return errors.Join(fmt.Errorf("remember confrev (pid %s): %w", pid, err), cmd.Process.Kill())
	}
	return c.waitReady(ctx)
}

func (c *process) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		if c.ready(ctx) {
			return nil
		}
		select {
		case <-c.ended:
			return fmt.Errorf("confrev ended before it was ready; its log: %s", c.place.log())
		case <-ctx.Done():
			return fmt.Errorf("confrev is not ready after %s; its log: %s: %w", startTimeout, c.place.log(), ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *process) ready(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.health, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// livePid is the pid of the confrev that a demo in this place started, if it still runs; 0 otherwise. A pid alone proves
// nothing: after a reboot it may be anybody's.
func (p place) livePid() int {
	content, err := os.ReadFile(p.pid())
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil || pid <= 1 || !strings.Contains(commandLine(pid), " --kubeconfig "+p.confrevKubeconfig()+" ") {
		return 0
	}
	return pid
}

// commandLine is empty for a process that ended, collected or not.
func commandLine(pid int) string {
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		out, _ := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
		return string(out)
	}
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.ReplaceAll(string(content), "\x00", " ")
}

// stop ends the confrev that a demo in this place started, if it runs: as Kubernetes would, politely, and by force when
// that does not help. It gives the pid.
func (p place) stop(ctx context.Context) (pid int, err error) {
	return p.end(ctx, syscall.SIGTERM, syscall.SIGKILL)
}

// end ends confrev, if it runs, by the first of the signals that does it.
func (p place) end(ctx context.Context, signals ...syscall.Signal) (pid int, err error) {
	pid = p.livePid()
	if pid == 0 {
		return 0, forget(p.pid())
	}
	for _, signal := range signals {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return pid, fmt.Errorf("stop confrev (pid %d): %w", pid, err)
		}
		if p.waitGone(ctx) {
			return pid, forget(p.pid())
		}
		if ctx.Err() != nil {
			return pid, ctx.Err()
		}
	}
	return pid, fmt.Errorf("confrev (pid %d) does not end; its log: %s", pid, p.log())
}

func (p place) waitGone(ctx context.Context) bool {
	for deadline := time.Now().Add(stopTimeout); time.Now().Before(deadline) && ctx.Err() == nil; {
		if p.livePid() == 0 {
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

func forget(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
