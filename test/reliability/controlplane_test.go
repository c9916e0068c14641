//go:build reliability

package reliability

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"confrev.io/confrev/test/faults"
	"confrev.io/confrev/test/gen"
)

// The API server, or etcd, or both are killed in the middle of a change to many workloads, and start again: each rolls out once, with no start of
// confrev in between.
func TestTheControlPlaneRestarts(t *testing.T) {
	for _, processes := range [][]string{{"kube-apiserver"}, {"etcd"}, {"etcd", "kube-apiserver"}} {
		t.Run(strings.Join(processes, " and "), func(t *testing.T) {
			const workloads = 60
			m := alone(t, "controlplane", faults.Options{Seed: seed})
			w := newWorld(t)
			w.Create(configMap(source, "A"))
			for i := range workloads {
				w.Create(deployment(fmt.Sprint("web-", i), gen.Replicas(0)))
			}
			w.waitPinned("A")
			pid, before := m.PID(), m.pins(w)
			rolledOutOnce := w.rolledOutOnce()
			// Else the change would be over before anyone could interrupt it.
			m.proxy.Set(faults.Chances{faults.Latency: 1})
			w.Edit(source, color, "B")
			w.Eventually("the change is under way", func() string {
				if now := m.pins(w); now < before+workloads/6 {
					return fmt.Sprintf("%d have it", now-before)
				}
				return ""
			})
			for _, process := range processes {
				w.Must(cluster.KillProcess(process))
			}
			killed, done := time.Now(), m.pins(w)-before
			m.proxy.Set(nil)
			w.Must(cluster.Revive(w.Ctx, os.Stderr))
			w.Logf("the control plane was back after %s; %d of %d workloads had the change before", time.Since(killed).Round(time.Millisecond), done, workloads)
			if done == workloads {
				t.Error("the change was over already: this shows nothing")
			}
			back := time.Now()
			w.waitPinned("B")
			w.Logf("all have it %s later", time.Since(back).Round(10*time.Millisecond))
			w.Barrier()
			rolledOutOnce()
			if m.Ended() || m.PID() != pid {
				t.Errorf("confrev ended, see %s", m.Log)
			}
		})
	}
}

// pins returns how often confrev has patched Deployments of a namespace.
func (m *member) pins(w *world) (n int) {
	for _, write := range m.writes(w) {
		if write.Method == http.MethodPatch && strings.Contains(write.Path, "/deployments/") {
			n++
		}
	}
	return n
}
