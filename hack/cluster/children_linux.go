package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// children are the processes whose end this program wants to know of. As the first process of its namespace it gets
// those of ended parents too, so one loop waits for any process, and nothing else may.
type children struct {
	mu    sync.Mutex
	ended map[int]chan syscall.WaitStatus
	// started has a token when there may be a child to wait for.
	started chan struct{}
}

type child struct {
	pid   int
	ended <-chan syscall.WaitStatus
}

func newChildren() *children {
	c := &children{ended: map[int]chan syscall.WaitStatus{}, started: make(chan struct{}, 1)}
	go c.collect()
	return c
}

func (c *children) start(cmd *exec.Cmd) (child, error) {
	// Under the lock, so that its end is not collected before it is known.
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return child{}, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	ended := make(chan syscall.WaitStatus, 1)
	c.ended[cmd.Process.Pid] = ended
	select {
	case c.started <- struct{}{}:
	default:
	}
	return child{cmd.Process.Pid, ended}, nil
}

func (c *children) collect() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.ECHILD) {
			// Others than those that it starts come only from them.
			<-c.started
			continue
		}
		if err != nil {
			continue // a signal
		}
		c.mu.Lock()
		if ended, ok := c.ended[pid]; ok {
			ended <- status
			delete(c.ended, pid)
		}
		c.mu.Unlock()
	}
}

// stop asks a child to end and waits a moment for it.
func (c child) stop() {
	_ = syscall.Kill(c.pid, syscall.SIGTERM)
	select {
	case <-c.ended:
	case <-time.After(1500 * time.Millisecond):
	}
}
