//go:build perf

package perf

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/env"
)

// BenchmarkFailover measures for how long nothing is pinned when the leader of two replicas goes: from its end until a watch shows the pin of an edit
// that was made right then. A leader that is killed keeps its lease, so the other one waits for that to run out; one that is stopped releases it.
// The leader is killed 50 times (CONFREV_BENCH_FAILOVERS), which takes as many leases, and stopped a fifth as often.
func BenchmarkFailover(b *testing.B) {
	kills := size(b, "CONFREV_BENCH_FAILOVERS", 50)
	w := newWorld(b)
	w.Must(w.TryCreate(configMap("web", "first")))
	w.Must(w.TryCreate(deployment("web", "web")))
	p := w.startPair()
	var killed, stopped, ended []time.Duration
	for b.Loop() {
		for range kills {
			_, pinned := p.without((*env.Confrev).Kill)
			killed = append(killed, pinned)
		}
		for range max(1, kills/5) {
			took, pinned := p.without((*env.Confrev).Stop)
			ended, stopped = append(ended, took), append(stopped, pinned)
		}
	}
	lease := p.lease()
	t := newTable(b, fmt.Sprintf("%d kills, %d stops", len(killed), len(stopped)), "median", "p95", "max")
	row := func(name string, d []time.Duration, less time.Duration) {
		t.row(name, middle(d)-less, quantile(d, .95)-less, quantile(d, 1)-less)
	}
	row("leader killed → pin", killed, 0)
	row(fmt.Sprintf("… less the lease of %s", lease), killed, lease)
	row("leader told to stop → pin", stopped, 0)
	row("leader told to stop → it has ended", ended, 0)
	t.print()
	s := measured(b, len(killed))
	s.took("killed to pin", killed)
	s.set("killed to pin, max, less the lease", ms(quantile(killed, 1)-lease), "ms")
	s.set("lease", ms(lease), "ms")
	s.took("stopped to pin", stopped)
	s.took("stopped to ended", ended)
	s.set("stopped to ended, max", ms(quantile(ended, 1)), "ms")
}

// pair are two replicas.
type pair struct {
	w         *world
	replicas  [2]*env.Confrev
	templates *templates
	edits     int
}

// startPair starts them, waits until Deployment web is pinned, and stops them at the end.
func (w *world) startPair() *pair {
	w.Helper()
	p := &pair{w: w, templates: w.watchTemplates(workload.Deployment)}
	for i := range p.replicas {
		args := append([]string{"--log-level", "info", "--leader-elect", "--settle", "0s", "--revisions-per-hour", "100000", "--rollouts-per-hour", "100000"}, flags...)
		confrev, err := cluster.Confrev(w.Ctx, fmt.Sprint("replica-", i), binary, args...)
		w.Must(err)
		w.Must(confrev.Start(w.Ctx))
		w.Cleanup(func() {
			if err := confrev.Stop(); err != nil {
				w.Errorf("confrev did not end well, see %s: %v", confrev.Log, err)
			}
		})
		p.replicas[i] = confrev
	}
	w.Must(cluster.WaitWebhook(w.Ctx))
	p.templates.changed(keys.Pins, "web")
	return p
}

// leader waits until one of them leads.
func (p *pair) leader() (leader *env.Confrev) {
	p.w.Helper()
	p.w.Eventually("one leads", func() string {
		for _, replica := range p.replicas {
			metrics, err := replica.ReadMetrics(p.w.Ctx)
			p.w.Must(err)
			if metrics.Sum("leader_election_master_status") == 1 {
				leader = replica
				return ""
			}
		}
		return "none does"
	})
	return leader
}

// without ends the leader, edits the source, and returns when the leader had ended, and when the edit was pinned. Then it starts it again.
func (p *pair) without(end func(*env.Confrev) error) (ended, pinned time.Duration) {
	p.w.Helper()
	leader := p.leader()
	began := time.Now()
	p.w.Must(end(leader))
	ended = time.Since(began)
	p.edits++
	p.w.edit("web", fmt.Sprint("edit ", p.edits))
	pinned = p.templates.changed(keys.Pins, "web")[0].Sub(began)
	p.w.Must(leader.Start(p.w.Ctx))
	return ended, pinned
}

// lease returns for how long a leader leads without renewing its lease.
func (p *pair) lease() time.Duration {
	p.w.Helper()
	lease := &coordinationv1.Lease{}
	p.w.Must(cluster.Client.Get(p.w.Ctx, types.NamespacedName{Namespace: env.Namespace, Name: "confrev"}, lease))
	return time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
}
