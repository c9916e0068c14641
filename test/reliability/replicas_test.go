//go:build reliability

package reliability

import (
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/faults"
)

// replicas are two confrevs that elect a leader, each behind a proxy of its own.
type replicas struct {
	*world
	leader, waiting *member
}

// newReplicas starts them, with a Deployment that is pinned. own has a further flag for each of them.
func newReplicas(t *testing.T, name string, own ...string) *replicas {
	t.Helper()
	r := &replicas{world: newWorld(t)}
	var both [2]*member
	for i := range both {
		flags := []string{"--leader-elect", "--settle", "0s"}
		if len(own) > 0 {
			flags = append(flags, own[i])
		}
		both[i] = prepare(t, fmt.Sprintf("%s-%d", name, i), faults.Options{}, flags...)
		both[i].start()
	}
	r.Eventually("one leads", func() string {
		for i, m := range both {
			if r.leads(m) {
				r.leader, r.waiting = m, both[1-i]
				return ""
			}
		}
		return "none does"
	})
	r.Must(cluster.WaitWebhook(r.Ctx))
	r.Create(configMap(source, "first"), deployment("web"))
	r.waitPinned("first")
	return r
}

// leads reports whether a confrev says that it leads.
func (r *replicas) leads(m *member) bool {
	r.Helper()
	metrics, err := m.ReadMetrics(r.Ctx)
	r.Must(err)
	return metrics.Sum("leader_election_master_status") == 1
}

// lease returns for how long a leader leads without renewing its lease.
func (r *replicas) lease() time.Duration {
	r.Helper()
	lease := &coordinationv1.Lease{}
	r.Must(cluster.Client.Get(r.Ctx, types.NamespacedName{Namespace: env.Namespace, Name: "confrev"}, lease))
	return time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
}

// takesOver waits until the other replica leads, and has pinned a value.
func (r *replicas) takesOver(value string) {
	r.Helper()
	r.Eventually("the other one leads", func() string {
		if !r.leads(r.waiting) {
			return "it does not"
		}
		return ""
	})
	r.waitPinned(value)
}

// wrote returns what a replica has written since a time, except for leases.
func wrote(m *member, since time.Time) []faults.Write {
	return slices.DeleteFunc(m.proxy.Writes(), func(write faults.Write) bool { return write.OfLease() || write.At.Before(since) })
}

// ends waits until a replica has ended, as one does that has lost its lease.
func (r *replicas) ends(m *member, since time.Time) {
	r.Helper()
	r.Eventually("the one that led ends", func() string {
		if !m.Ended() {
			return "it runs"
		}
		return ""
	})
	r.Logf("the one that led ended %s later", time.Since(since).Round(10*time.Millisecond))
}

// editUntil edits the source until a replica has ended, so that it always has something to write.
func (r *replicas) editUntilEnded(m *member) (last string) {
	r.Helper()
	n := 0
	r.Eventually("the one that led ends", func() string {
		n++
		last = fmt.Sprint("edit ", n)
		r.Edit(source, color, last)
		if !m.Ended() {
			return "it runs"
		}
		return ""
	})
	return last
}

// A leader that is suspended beyond its lease, and then resumed, must not write: another one leads.
func TestALeaderThatWasSuspendedWritesNothing(t *testing.T) {
	r := newReplicas(t, "suspended")
	r.Must(env.Suspend(r.leader.PID()))
	// Else it would not end with the test.
	defer func() {
		if !r.leader.Ended() {
			r.Must(env.Resume(r.leader.PID()))
		}
	}()
	stopped := time.Now()
	r.Edit(source, color, "while it is suspended")
	r.takesOver("while it is suspended")
	r.Logf("suspended: %s from the stop until all are pinned; the lease is %s", time.Since(stopped).Round(10*time.Millisecond), r.lease())

	resumed := time.Now()
	r.Must(env.Resume(r.leader.PID()))
	last := r.editUntilEnded(r.leader)
	r.ends(r.leader, resumed)
	r.waitPinned(last)
	if writes := wrote(r.leader, resumed); len(writes) > 0 {
		t.Errorf("it wrote %d times while another one led, the last time %s after it was resumed:\n%s",
			len(writes), writes[len(writes)-1].At.Sub(resumed), list(writes, r.NS))
	}
}

// A leader that is cut off for good ends by itself, and another one does its work. It tries to renew its lease for ten seconds, so by the time another one
// leads, it is as good as gone, and cannot show what it writes then: TestALeaderThatWasSuspendedWritesNothing is about one that is there.
func TestALeaderThatIsCutOffEnds(t *testing.T) {
	r := newReplicas(t, "cut")
	r.leader.proxy.Cut()
	cut := time.Now()
	r.Edit(source, color, "while it is cut off")
	r.ends(r.leader, cut)
	r.takesOver("while it is cut off")
	r.Logf("cut off: %s until all are pinned; the lease is %s", time.Since(cut).Round(10*time.Millisecond), r.lease())
	r.Edit(source, color, "when it has ended")
	r.waitPinned("when it has ended")
}

// A leader that is stopped in the middle of its work releases its lease, and nothing is lost.
func TestALeaderThatIsStoppedLeavesItsWork(t *testing.T) {
	r := newReplicas(t, "stopped")
	r.Edit(source, color, "at the end")
	stopped := time.Now()
	r.Must(r.leader.Stop())
	took := time.Since(stopped)
	r.takesOver("at the end")
	r.Logf("stopped: it ended within %s, all are pinned after %s; the lease is %s",
		took.Round(time.Millisecond), time.Since(stopped).Round(10*time.Millisecond), r.lease())
	if took > r.lease() {
		t.Errorf("it took %s to end", took)
	}
}
