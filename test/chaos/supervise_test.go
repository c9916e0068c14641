//go:build chaos

package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"confrev.io/confrev/test/env"
)

// supervise starts a leader again that has ended by itself, as the kubelet does: it has to end if an overloaded API server does not renew its
// lease in time. stop ends the supervision, and returns an error if a leader ended for any other reason.
func (p *processes) supervise(ctx context.Context) (stop func() error) {
	over, ended := make(chan struct{}), make(chan error)
	go func() {
		var errs []error
		for {
			select {
			case <-over:
				ended <- errors.Join(errs...)
				return
			case <-time.After(50 * time.Millisecond):
			}
			if err := p.lockRunning(ctx); err != nil {
				fmt.Fprintln(os.Stderr, "chaos:", err)
				errs = append(errs, err)
				continue
			}
			p.Unlock()
		}
	}()
	return func() error { close(over); return <-ended }
}

// lockRunning takes the lock, with a leader that runs. It does not have the lock if it returns an error.
func (p *processes) lockRunning(ctx context.Context) error {
	p.Lock()
	if err := p.restart(ctx); err != nil {
		p.Unlock()
		return err
	}
	return nil
}

// restart starts the leader again if it has ended by itself. A leader that crashed is started too, for the other histories.
func (p *processes) restart(ctx context.Context) error {
	if !p.leader.Ended() {
		return nil
	}
	crash := lostLease(p.leader)
	defer p.begin()()
	before, err := holder(ctx)
	if err != nil {
		return errors.Join(crash, err)
	}
	if err := p.leader.Start(ctx); err != nil {
		return errors.Join(crash, fmt.Errorf("start the leader again: %w", err))
	}
	total.took("lost lease", true)
	return errors.Join(crash, p.awaitLeader(ctx, before))
}

// lostLease returns an error if a confrev that has ended did so for another reason than that it did not lead any longer.
func lostLease(c *env.Confrev) error {
	log, err := os.ReadFile(c.Log)
	if err != nil {
		return err
	}
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	if last := lines[len(lines)-1]; !bytes.Equal(last, []byte("confrev: leader election lost")) {
		return fmt.Errorf("confrev ended by itself, see %s: %s", c.Log, last)
	}
	return nil
}

// losesLease reports whether a confrev that led has said that it does not lead any longer. Then it is about to end.
func losesLease(c *env.Confrev) (bool, error) {
	log, err := os.ReadFile(c.Log)
	return bytes.LastIndex(log, []byte("Failed to renew lease")) > bytes.LastIndex(log, []byte("Successfully acquired lease")), err
}

// A leader that cannot renew its lease ends, and histories continue with the next one.
func TestTheLeaderIsStartedAgain(t *testing.T) {
	t.Parallel()
	running := func() int {
		process.Lock()
		defer process.Unlock()
		if process.leader.Ended() {
			return 0
		}
		return process.leader.PID()
	}
	// With the lock, no failover is about to replace the lease.
	if err := process.lockRunning(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, another := process.leader.PID(), "another"
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		l, err := lease(t.Context())
		if err != nil {
			return err
		}
		// For longer than the ten seconds for which it tries again.
		l.Spec.HolderIdentity, *l.Spec.LeaseDurationSeconds = &another, 12
		return cluster.Client.Update(t.Context(), l)
	})
	process.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		leads, err := holder(ctx)
		now := running()
		return now != 0 && now != before && leads != "" && leads != another, err
	})
	if err != nil {
		t.Errorf("the leader was process %d, and is process %d: %v", before, running(), err)
	}
}

// Only a leader that says that it lost its lease may end, and only one that said so before it was told to stop may do so badly.
func TestOnlyALostLeaseIsAnExcuse(t *testing.T) {
	const acquired, failed, lost = "msg=\"Successfully acquired lease\"\n", "msg=\"Failed to renew lease\"\n", "confrev: leader election lost\n"
	for name, test := range map[string]struct {
		log         string
		loses, lost bool
	}{
		"it leads":                {acquired, false, false},
		"it is about to end":      {acquired + failed, true, false},
		"it ended":                {acquired + failed + lost, true, true},
		"it leads again":          {acquired + failed + lost + acquired, false, false},
		"it crashed":              {acquired + failed + lost + acquired + "panic: no\n", false, false},
		"it crashed while ending": {acquired + failed + "panic: no\n", true, false},
	} {
		c := &env.Confrev{Log: filepath.Join(t.TempDir(), "log")}
		if err := os.WriteFile(c.Log, []byte(test.log), 0o600); err != nil {
			t.Fatal(err)
		}
		if loses, err := losesLease(c); err != nil || loses != test.loses {
			t.Errorf("%s: it loses its lease: %v, %v", name, loses, err)
		}
		if err := lostLease(c); (err == nil) != test.lost {
			t.Errorf("%s: %v", name, err)
		}
	}
}
