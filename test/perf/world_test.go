//go:build perf

// Package perf measures confrev on a real control plane (hack/cluster), with the chart's own rights. Its benchmarks
// print figures and never fail for slowness: what a machine makes of them depends on what else runs on it, so each also
// measures, in the same run, the floor that no one could beat. At the end, a table shows all figures with their goals
// (goals.yaml), and each scenario prints a line of JSON.
//
// Benchmarks that take long run only if -bench is a pattern that someone chose.
//
// Environment: CONFREV_BENCH_CLUSTER names the cluster; CONFREV_BENCH_BINARY measures that confrev instead of this
// tree's; CONFREV_BENCH_FLAGS are further flags for it, separated by spaces. CONFREV_BENCH_CONTROLLER is the command of another
// controller to measure instead, which finds the cluster by KUBECONFIG, and CONFREV_BENCH_ANNOTATIONS (key=value,key=value) are
// those by which a Deployment opts in to it; what is about confrev alone is skipped then. CONFREV_BENCH_RESULTS is a file to which
// the lines of JSON are added. With CONFREV_BENCH_UPDATE, goals.yaml gets what was measured.
package perf

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

var (
	cluster *env.Cluster
	binary  string
	// flags are further ones for every confrev that is measured.
	flags []string
)

func TestMain(m *testing.M) {
	ctx, code := context.Background(), 1
	goals, err := readGoals()
	if err == nil {
		err = setUp(ctx)
	}
	if err == nil {
		code = m.Run()
		err = errors.Join(reportAll(os.Stdout, goals), misnamed(goals))
	}
	if err == nil && os.Getenv("CONFREV_BENCH_UPDATE") != "" {
		err = updateGoals(ctx, goals)
	}
	cluster.Exit(code, err)
}

func setUp(ctx context.Context) (err error) {
	// A thousand workloads have a pod each, and another one while they roll out; a node takes 110.
	if cluster, err = env.Up(ctx, cmp.Or(os.Getenv("CONFREV_BENCH_CLUSTER"), "bench"), os.Stderr, env.ArgoRollouts, "--nodes=20"); err != nil {
		return err
	}
	if err := cluster.Install(ctx, "secrets.enabled=true"); err != nil {
		return err
	}
	if err := drive(ctx); err != nil {
		return err
	}
	flags = strings.Fields(os.Getenv("CONFREV_BENCH_FLAGS"))
	if binary = os.Getenv("CONFREV_BENCH_BINARY"); binary == "" {
		// Without the race detector, which makes all slower.
		binary, err = cluster.Build(ctx, "confrev", false)
	}
	return err
}

// patience bounds every wait for something that must happen.
const patience = 5 * time.Minute

// world is a namespace of its own for one benchmark, and what users do in it.
type world struct {
	*testing.B
	env.World
}

// newWorld makes a namespace for a benchmark of confrev. Another controller has nothing to do in it.
func newWorld(b *testing.B) *world {
	b.Helper()
	if driven != nil {
		b.Skip("it is about confrev alone")
	}
	return newAnyWorld(b)
}

// newAnyWorld makes a namespace for a benchmark of any controller, and waits at the end until it is gone: its deletion would slow the next
// benchmark.
func newAnyWorld(b *testing.B) *world {
	b.Helper()
	w := &world{b, env.NewWorld(b, cluster, "perf")}
	w.Patience = patience
	b.Cleanup(func() {
		_, err := cluster.Kubectl(context.Background(), "delete", "namespace", w.NS, "--ignore-not-found", "--timeout="+w.Patience.String())
		if err != nil {
			b.Error(err)
		}
	})
	return w
}

// long skips a benchmark that takes many minutes, unless -bench is a pattern that someone chose.
func long(b *testing.B) {
	b.Helper()
	if pattern := flag.Lookup("test.bench").Value.String(); pattern == "." {
		b.Skipf("it takes long: choose it, with -bench '%s$'", strings.TrimPrefix(b.Name(), "Benchmark"))
	}
}

// sizes reads numbers, separated by commas, from the environment.
func sizes(b *testing.B, variable, otherwise string) (all []int) {
	b.Helper()
	for text := range strings.SplitSeq(cmp.Or(os.Getenv(variable), otherwise), ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			b.Fatalf("%s: %q is not a number of 1 or more", variable, text)
		}
		all = append(all, n)
	}
	return all
}

// size reads one number from the environment.
func size(b *testing.B, variable string, otherwise int) int {
	b.Helper()
	return sizes(b, variable, strconv.Itoa(otherwise))[0]
}

// creating is how many requests set-up has in flight.
const creating = 16

// many calls do for 0 to n-1, with so many in flight.
func (w *world) many(n, inFlight int, do func(i int) error) {
	w.Helper()
	var group errgroup.Group
	group.SetLimit(inFlight)
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	w.Must(group.Wait())
}

// tracked creates n tracked Deployments, each with a ConfigMap of its own, and returns their names.
func (w *world) tracked(prefix string, n int) (names []string) {
	w.Helper()
	for i := range n {
		names = append(names, fmt.Sprint(prefix, "-", i))
	}
	w.many(n, creating, func(i int) error {
		if err := w.TryCreate(configMap(names[i], "v")); err != nil {
			return err
		}
		return w.TryCreate(deployment(names[i], names[i]))
	})
	return names
}

func configMap(name, value string) *corev1.ConfigMap {
	return gen.Unsaved(gen.ConfigMap(name, gen.Data("key", value)))
}

// deployment makes a tracked Deployment without pods that uses a ConfigMap in the two usual ways.
func deployment(name, source string) *appsv1.Deployment {
	uses := gen.Template(gen.EnvFrom("configmap/"+source), gen.Volume("configmap/"+source))
	return gen.Unsaved(gen.Deployment(name, append(optsIn(), gen.Replicas(0), uses)...))
}

// untracked makes a Deployment that confrev leaves alone.
func untracked(name string) *appsv1.Deployment {
	d := deployment(name, "app")
	d.Annotations = nil
	return d
}

// edit sets the value of a ConfigMap, and returns when the API server had it.
func (w *world) edit(name, value string) time.Time {
	w.Helper()
	w.Edit(name, "key", value)
	return time.Now()
}

// stamp is the template annotation of the bare patches that make the floor.
const stamp = "example.com/stamp"

// patchTemplate does the least that any tool must do to roll a Deployment out.
func (w *world) patchTemplate(name, value string) error {
	return w.patch(name, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:%q}}}}}`, stamp, value))
}

// patch changes a Deployment by a merge patch.
func (w *world) patch(name, patch string) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: name}}
	return cluster.Client.Patch(w.Ctx, d, client.RawPatch(types.MergePatchType, []byte(patch)))
}
