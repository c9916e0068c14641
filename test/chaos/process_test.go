//go:build chaos

package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/test/env"
)

// Faults separate confrev from the API server: From Cut to the other call, every request fails, and watches end.
// A proxy between the two implements it; set faults before verbs is filled, and point the proxy at the API server in processes.start.
type Faults interface {
	Cut() error
	Mend() error
}

// faults is nil as long as there is no such proxy; then no history has partitions.
var faults Faults

// processes are the confrevs of all histories. One leads; a second one is there for failovers only. What happens to them happens to
// all histories, so one play at a time has the lock, until confrev leads again: otherwise no one might ever lead.
type processes struct {
	sync.Mutex
	leader, standby *env.Confrev
	absences
}

var process processes

// start prepares both and starts the one that leads first.
func (p *processes) start(ctx context.Context, binary string) error {
	flags := []string{"--leader-elect", "--secrets", "--fail-fast", "--evict-stuck-pods", "--settle", settle.String(), "--grace", grace.String(),
		"--revisions-per-hour", "100000", "--rollouts-per-hour", "100000"}
	var errs [2]error
	p.leader, errs[0] = cluster.Confrev(ctx, "confrev-a", binary, flags...)
	p.standby, errs[1] = cluster.Confrev(ctx, "confrev-b", binary, flags...)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	if err := p.leader.Start(ctx); err != nil {
		return err
	}
	return errors.Join(p.awaitLeader(ctx, ""), cluster.WaitWebhook(ctx))
}

// lease reads the Lease of confrev's leader.
func lease(ctx context.Context) (*coordinationv1.Lease, error) {
	l := &coordinationv1.Lease{}
	return l, cluster.Client.Get(ctx, client.ObjectKey{Namespace: env.Namespace, Name: "confrev"}, l)
}

// holder returns who leads, or "".
func holder(ctx context.Context) (string, error) {
	l, err := lease(ctx)
	if err := client.IgnoreNotFound(err); err != nil || l.Spec.HolderIdentity == nil {
		return "", err
	}
	return *l.Spec.HolderIdentity, nil
}

// awaitLeader waits until another than the one before leads.
func (p *processes) awaitLeader(ctx context.Context, before string) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		now, err := holder(ctx)
		return now != "" && now != before, err
	})
	if err != nil {
		return fmt.Errorf("wait until a confrev leads that is not %q: %w", before, err)
	}
	return nil
}

// kill ends the leader as a lost node does. The lease is deleted, since all histories would wait until it runs out: how long that
// takes is not what they are about.
func (p *processes) kill(ctx context.Context) error {
	if err := p.leader.Kill(); err != nil {
		return err
	}
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "confrev"}}
	return client.IgnoreNotFound(cluster.Client.Delete(ctx, l))
}

// stop ends the leader as Kubernetes does. It has to end well, unless it was ending already because of its lease.
func (p *processes) stop(context.Context) error {
	ending, err := losesLease(p.leader)
	if err != nil {
		return err
	}
	if err = p.leader.Stop(); err != nil && ending {
		return lostLease(p.leader)
	}
	return err
}

// down returns what takes confrev down, until so many further steps have happened.
func down(how func(*processes, context.Context) error) func(*play, step) error {
	return func(p *play, s step) error {
		return p.outage(s, func(ctx context.Context, before string) error {
			if err := process.leader.Start(ctx); err != nil {
				return err
			}
			return process.awaitLeader(ctx, before)
		}, func() error { return how(&process, p.Ctx) })
	}
}

// partition cuts confrev off.
func partition(p *play, s step) error {
	return p.outage(s, func(context.Context, string) error { return faults.Mend() }, faults.Cut)
}

// outage begins an outage that restore ends after some steps.
func (p *play) outage(s step, restore func(ctx context.Context, before string) error, begin func() error) (err error) {
	if p.isDown {
		p.note("confrev is down already")
		return nil
	}
	if p.restartIn, err = strconv.Atoi(s.value); err != nil {
		return err
	}
	if err := process.lockRunning(p.Ctx); err != nil {
		return err
	}
	before, err := holder(p.Ctx)
	if err != nil {
		process.Unlock()
		return err
	}
	end := process.begin()
	p.isDown, p.restore = true, func(ctx context.Context) error {
		defer end()
		return restore(ctx, before)
	}
	p.note("confrev is down from here on: %s", s.verb)
	if err := begin(); err != nil {
		return err
	}
	if p.restartIn == 0 {
		p.revive()
	}
	return nil
}

// revive ends an outage that this play began, if any.
func (p *play) revive() {
	if !p.isDown {
		return
	}
	p.isDown = false
	// Whatever ended this play, the others need confrev.
	err := p.restore(context.WithoutCancel(p.Ctx))
	process.Unlock()
	p.note("confrev runs again")
	if err != nil {
		p.complain("confrev does not run again: %v", err)
	}
}

// suspend stops the process without its knowledge, as a machine that is overloaded or migrated does.
func suspend(p *play, s step) error {
	d, err := time.ParseDuration(s.value)
	if err != nil || p.isDown {
		return err
	}
	if err := process.lockRunning(p.Ctx); err != nil {
		return err
	}
	defer process.Unlock()
	p.note("confrev is suspended for %s", d)
	defer process.begin()()
	return freezeProcess(process.leader.PID(), func() { time.Sleep(d) })
}

// freezeProcess stops a process while do runs.
func freezeProcess(pid int, do func()) error {
	if err := env.Suspend(pid); err != nil {
		return errors.Join(err, env.Resume(pid))
	}
	do()
	return env.Resume(pid)
}

// failover starts a second confrev and ends the first, or suspends it until the second leads, so that there are two that take
// themselves for the leader. From then on the second leads.
func failover(p *play, s step) error {
	if p.isDown {
		p.note("confrev is down already")
		return nil
	}
	if err := process.lockRunning(p.Ctx); err != nil {
		return err
	}
	defer process.Unlock()
	before, err := holder(p.Ctx)
	if err != nil {
		return err
	}
	p.note("a second confrev starts, and the first ends: %s", s.value)
	defer process.begin()()
	if err := process.standby.Start(p.Ctx); err != nil {
		return err
	}
	defer func() { process.leader, process.standby = process.standby, process.leader }()
	switch {
	case process.leader.Ended():
		// By itself, while the second one started.
		err = lostLease(process.leader)
	case s.value == "kill":
		err = process.kill(p.Ctx)
	case s.value == "stop":
		err = process.stop(p.Ctx)
	case s.value == "suspend":
		return process.depose(p.Ctx, before)
	}
	return errors.Join(err, process.awaitLeader(p.Ctx, before))
}

// depose suspends the leader until the other one leads. When it continues, it finds that it has lost the lease, and ends.
func (p *processes) depose(ctx context.Context, before string) (err error) {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "confrev"}}
	var led error
	err = freezeProcess(p.leader.PID(), func() {
		led = errors.Join(client.IgnoreNotFound(cluster.Client.Delete(ctx, l)), p.awaitLeader(ctx, before))
	})
	if err = errors.Join(err, led); err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(context.Context) (bool, error) { return p.leader.Ended(), nil })
	if err != nil {
		return fmt.Errorf("wait until the deposed confrev ends: %w", errors.Join(err, p.leader.Kill()))
	}
	return lostLease(p.leader)
}

// checkLogs looks for what histories may survive nevertheless.
func (p *processes) checkLogs() error {
	var errs []error
	for _, c := range []*env.Confrev{p.leader, p.standby} {
		log, err := os.ReadFile(c.Log)
		if errors.Is(err, os.ErrNotExist) {
			// The second one was never needed.
			continue
		}
		errs = append(errs, err)
		for _, wrong := range []string{"WARNING: DATA RACE", "ValidatingAdmissionPolicy 'confrev-guard-"} {
			if bytes.Contains(log, []byte(wrong)) {
				errs = append(errs, fmt.Errorf("confrev logged %q, see %s", wrong, c.Log))
			}
		}
	}
	return errors.Join(errs...)
}
