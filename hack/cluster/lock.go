package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lock takes the file lock at path, and says why it waits if another process has it. The kernel drops the lock when
// its process ends, however that happens; the file stays, since removing it would let two processes hold "the" lock.
func lock(ctx context.Context, path, why string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	// Go opens files close-on-exec, so that the processes of a cluster do not inherit the lock.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if held(file) {
		err = step(ctx, "wait: "+why, func(ctx context.Context) error {
			return poll(ctx, 0, func() (bool, error) { return !held(file), nil })
		})
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	return func() { _ = file.Close() }, nil
}

// held tries to take the lock and reports whether another process has it.
func held(file *os.File) bool {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
}

// poll asks every 100 ms until the answer is yes, an error, or the timeout (0: none) is over.
func poll(ctx context.Context, timeout time.Duration, done func() (bool, error)) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
