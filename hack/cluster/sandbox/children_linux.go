package sandbox

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Children are the processes whose end this program wants to know of. As the first process of its namespace it gets
// those of ended parents too, so one loop waits for any process, and nothing else may.
type Children struct {
	mu    sync.Mutex
	ended map[int]chan syscall.WaitStatus
	// started has a token when there may be a child to wait for.
	started chan struct{}
}

// Child is one of them.
type Child struct {
	pid int
	// Ended tells how it ended, once.
	Ended <-chan syscall.WaitStatus
}

// NewChildren begins to wait for them.
func NewChildren() *Children {
	c := &Children{ended: map[int]chan syscall.WaitStatus{}, started: make(chan struct{}, 1)}
	go c.collect()
	return c
}

// Start starts a command that is a child from then on.
func (c *Children) Start(cmd *exec.Cmd) (Child, error) {
	// Under the lock, so that its end is not collected before it is known.
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return Child{}, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	ended := make(chan syscall.WaitStatus, 1)
	c.ended[cmd.Process.Pid] = ended
	select {
	case c.started <- struct{}{}:
	default:
	}
	return Child{cmd.Process.Pid, ended}, nil
}

func (c *Children) collect() {
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

// Stop asks a child to end and waits a moment for it.
func (c Child) Stop() {
	_ = syscall.Kill(c.pid, syscall.SIGTERM)
	select {
	case <-c.Ended:
	case <-time.After(1500 * time.Millisecond):
	}
}
