package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clusterProcesses are the processes of every cluster, as kwokctl names their pid files and logs.
var clusterProcesses = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok-controller"}

// livePid returns the pid in a cluster's pid file if that process still is this cluster's; 0 otherwise. A pid alone proves
// nothing: after a reboot it may belong to anyone, and a dead process keeps it until its parent has collected it.
func livePid(l layout, name, process string) int {
	content, err := os.ReadFile(l.pid(name, process))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil || pid <= 1 {
		return 0
	}
	// Every process of a cluster has files of the cluster's directory in its arguments.
	if !strings.Contains(commandLine(pid), l.cluster(name)+string(filepath.Separator)) {
		return 0
	}
	return pid
}

// commandLine returns the command line of a process. It is empty for a process that ended, collected or not.
func commandLine(pid int) string {
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		out, _ := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
		return string(out)
	}
	// For a moment at its start, too, a process has no command line.
	for range 10 {
		content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if len(content) > 0 || ended(pid) {
			return strings.ReplaceAll(string(content), "\x00", " ")
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ""
}

// ended reports whether a process on Linux is gone, or only waits for its parent to collect it.
func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	// "pid (name) state …", where the name may have anything in it.
	_, state, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

// deadProcesses returns those of a cluster that should run and do not.
func deadProcesses(l layout, name string) []string {
	var dead []string
	for _, process := range clusterProcesses {
		if livePid(l, name, process) == 0 {
			dead = append(dead, process)
		}
	}
	return dead
}

// dropStalePids removes the pid files of dead processes. kwokctl trusts a pid file: it would take a stranger with
// the same pid for a running component, and end it with the cluster.
func dropStalePids(l layout, name string) error {
	files, err := filepath.Glob(l.pid(name, "*"))
	if err != nil {
		return fmt.Errorf("list pid files: %w", err)
	}
	for _, file := range files {
		if livePid(l, name, strings.TrimSuffix(filepath.Base(file), ".pid")) != 0 {
			continue
		}
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a stale pid file: %w", err)
		}
	}
	return nil
}

// stopProcess ends a process of a cluster by its pid: politely, after 5 s by force.
func stopProcess(ctx context.Context, l layout, name, process string) error {
	pid := livePid(l, name, process)
	if pid == 0 {
		return nil
	}
	gone := func() (bool, error) { return livePid(l, name, process) == 0, nil }
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop %s (pid %d): %w", process, pid, err)
		}
		if poll(ctx, 5*time.Second, gone) == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("%s (pid %d) does not end: end it by hand, then try again", process, pid)
}

// startProcess starts a process of a cluster that outlives this one.
func startProcess(l layout, name, process, binary string, args ...string) error {
	return startCommand(l, name, process, exec.Command(binary, args...))
}

func startCommand(l layout, name, process string, cmd *exec.Cmd) error {
	log, err := openLog(l.log(name, process))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd.Dir = l.cluster(name)
	cmd.Stdout, cmd.Stderr = log, log
	// A session of its own: neither ^C nor the end of the terminal reaches it.
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", process, err)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	if err := os.WriteFile(l.pid(name, process), []byte(pid), 0o644); err != nil {
		return errors.Join(fmt.Errorf("remember %s (pid %s): %w", process, pid, err), cmd.Process.Kill())
	}
	// Not waited for on purpose; it is collected here only if it ends while this process lives.
	go func() { _ = cmd.Wait() }()
	return nil
}

// freePorts finds n ports of the loopback interface on which nothing listens now. All are below those that the kernel gives to outgoing
// connections, one of which could take a port before its server has started.
func freePorts(n int) (ports []int, err error) {
	const first, tried = 10000, 10000
	for _, i := range rand.Perm(tried) {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+i))
		if err != nil {
			continue
		}
		// Closed only at the end, so that the next one differs.
		defer func() { _ = listener.Close() }()
		if ports = append(ports, first+i); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("only %d of the ports from %d on are free", len(ports), first)
}

func portIsFree(port int) error {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return fmt.Errorf("port %d cannot be used (%w): choose another, or leave --port out", port, err)
	}
	return listener.Close()
}
