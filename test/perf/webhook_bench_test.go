//go:build perf

package perf

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/test/env"
)

const (
	// webhookRate is how many requests arrive in a second, whether or not earlier ones are answered.
	webhookRate = 200
	webhookTime = 5 * time.Second
)

// BenchmarkWebhook measures what the workload webhook adds to requests that arrive at a steady rate: patches of a new image,
// with a server-side dry run, since real ones would measure the Deployment controller. One Deployment tracks its ConfigMap,
// which changed, so that each request is planned again with two live reads; another is not tracked. The floor is the same
// patch in confrev's own namespace, which the webhook does not select. With all confrevs dead, none may be refused. How often the API server
// called the webhooks for workloads, its own metrics say.
func BenchmarkWebhook(b *testing.B) {
	w := newWorld(b)
	w.Must(w.TryCreate(configMap("app", "v")))
	for b.Loop() {
		confrev := w.start()
		w.tracked("web", 1)
		w.Must(w.TryCreate(untracked("plain")))
		w.settled("web-0")
		w.edit("web-0", "w")
		outside := untracked("perf-floor")
		outside.Namespace = env.Namespace
		w.Must(cluster.Client.Create(w.Ctx, outside))

		t := newTable(b, "patch of the image, dry run, "+fmt.Sprint(webhookRate)+"/s", "p50", "p99", "refused", "webhook calls")
		_, floor := w.atRate(t, "floor: not selected", env.Namespace, "perf-floor")
		calls, plain := w.atRate(t, "not tracked", w.NS, "plain")
		_, tracked := w.atRate(t, "tracked, planned again", w.NS, "web-0")
		confrev.stop()
		w.atRate(t, "tracked, all confrevs dead", w.NS, "web-0")
		w.atRate(t, "floor: not selected", env.Namespace, "perf-floor")
		t.print()
		s := measured(b, len(tracked))
		s.least("a patch that nothing selects", floor)
		s.took("tracked", tracked)
		s.over("tracked over floor", middle(tracked))
		s.took("not tracked", plain)
		s.set("webhook calls, not tracked", float64(calls), "")
		w.Must(client.IgnoreNotFound(cluster.Client.Delete(w.Ctx, outside)))
	}
}

// settled waits until a Deployment is pinned and stays out of the measurement's way.
func (w *world) settled(name string) {
	w.Helper()
	// Not Eventually, whose looks become rare: how long it takes is measured.
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if d := w.Deployment(name); d.Status.ObservedGeneration == d.Generation && len(d.Spec.Template.Annotations) > 0 {
			return
		}
		if time.Now().After(deadline) {
			w.Fatalf("%s does not settle", name)
		}
	}
}

// atRate sends patches at the rate, and returns how often the webhook was called and how long they took.
func (w *world) atRate(t *table, what, namespace, name string) (calls int, taken []time.Duration) {
	w.Helper()
	var (
		group   sync.WaitGroup
		mu      sync.Mutex
		refused int
		lastErr error
	)
	called := w.webhookCalls()
	tick := time.NewTicker(time.Second / webhookRate)
	defer tick.Stop()
	for i := range int(webhookTime.Seconds() * webhookRate) {
		<-tick.C
		group.Go(func() {
			d := &appsv1.Deployment{}
			d.Namespace, d.Name = namespace, name
			patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"app:%d"}]}}}}`, i)
			began := time.Now()
			err := cluster.Client.Patch(w.Ctx, d, client.RawPatch(types.StrategicMergePatchType, []byte(patch)), client.DryRunAll)
			mu.Lock()
			defer mu.Unlock()
			taken = append(taken, time.Since(began))
			if err != nil {
				refused, lastErr = refused+1, err
			}
		})
	}
	group.Wait()
	calls = int(w.webhookCalls() - called)
	t.row(what, middle(taken), quantile(taken, 0.99), refused, calls)
	if lastErr != nil {
		w.Errorf("%s: %d refused: %v", what, refused, lastErr)
	}
	return calls, taken
}

// webhookCalls returns how often the API server has asked confrev about workloads. It does not count calls that nothing answered.
func (w *world) webhookCalls() (calls float64) {
	w.Helper()
	text, err := cluster.Kubectl(w.Ctx, "get", "--raw", "/metrics")
	w.Must(err)
	metrics, err := env.ParseMetrics(strings.NewReader(text))
	w.Must(err)
	for _, name := range []string{"pin-workloads.confrev.io", "pin-single-workloads.confrev.io"} {
		calls += metrics.Sum("apiserver_admission_webhook_request_total", "name", name)
	}
	return calls
}

// firstDeploys is how many Deployments are deployed for the first time, in each order.
const firstDeploys = 50

// BenchmarkFirstDeploys deploys ConfigMaps and the Deployments that use them, in both orders, and counts the ReplicaSets
// beyond one for each.
func BenchmarkFirstDeploys(b *testing.B) {
	w := newWorld(b)
	for b.Loop() {
		w.start()
		t := newTable(b, "first deploys of ConfigMap and Deployment", "Deployments", "extra ReplicaSets", "until pinned p50", "max")
		for _, order := range []struct {
			name          string
			workloadFirst bool
		}{{"configmap-first", false}, {"workload-first", true}} {
			w.deployFirst(t, order.name, order.workloadFirst)
		}
		t.print()
	}
}

func (w *world) deployFirst(t *table, name string, workloadFirst bool) {
	w.Helper()
	taken := make([]time.Duration, firstDeploys)
	w.many(firstDeploys, 4, func(i int) error {
		each := fmt.Sprint(name, "-", i)
		objects := []client.Object{configMap(each, "v"), deployment(each, each)}
		if workloadFirst {
			objects[0], objects[1] = objects[1], objects[0]
		}
		began := time.Now()
		for _, obj := range objects {
			if err := w.TryCreate(obj); err != nil {
				return err
			}
		}
		w.settled(each)
		taken[i] = time.Since(began)
		return nil
	})
	all := &appsv1.ReplicaSetList{}
	w.List(all)
	extra := -firstDeploys
	for _, rs := range all.Items {
		if len(rs.OwnerReferences) > 0 && len(rs.OwnerReferences[0].Name) > len(name) && rs.OwnerReferences[0].Name[:len(name)] == name {
			extra++
		}
	}
	t.row(name, firstDeploys, extra, middle(taken), quantile(taken, 1))
	s := measured(w.B, firstDeploys)
	s.took(name+" to pinned", taken)
	s.set(name+", extra ReplicaSets", float64(extra), "")
}
