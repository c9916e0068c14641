//go:build e2e

// Package e2e tests confrev on a real control plane (hack/cluster): the chart is installed by Helm, and confrev runs
// with the race detector and the chart's own rights.
//
// Tests that stop confrev, or install the chart in another way, are in the files alone_*_test.go and run one after the other. All
// others call t.Parallel and share the running one.
package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/faults"
)

// The settle and grace times of the confrev under test. They are short, yet on a busy machine the settle time is long enough for one
// `kubectl apply` of several files to be one change, and the grace time for revisions and workloads to come back one after the other.
const (
	settle = time.Second
	grace  = 20 * time.Second
)

var (
	cluster *env.Cluster
	confrev *env.Confrev
	// binary is confrev with the race detector.
	binary string
)

// chartValues give confrev the rights that it is tested with.
var chartValues = slices.Concat([]string{
	// On a busy machine, a request that went on without confrev would be one rollout more. With the race detector, pods of
	// thousands of references take seconds.
	"webhook.timeoutSeconds=30", "secrets.enabled=true", "restartOn[0].apiGroups[0]=", "restartOn[0].resources[0]=persistentvolumeclaims",
	"failFast.enabled=true", "failFast.evictStuckPods=true", "analysis.enabled=true", "restartOn[1].apiGroups[0]=e2e.confrev.io", "restartOn[1].resources[0]=webapps",
	"restartOn[2].apiGroups[0]=storage.k8s.io", "restartOn[2].resources[0]=storageclasses",
	"compat[0]=reloader", "compat[1]=wave", "rotate[0]=external-secrets", "rotate[1]=vault", "rotate[2]=trust-manager",
	// What the confrev under test is started with: the plugin reads it from the chart's Deployment.
	"settle=" + settle.String(), "grace=" + grace.String(),
}, webAppValues, stageValues())

// newerThanPrevious reports whether a value is one that the earlier chart does not have.
func newerThanPrevious(value string) bool {
	return strings.HasPrefix(value, "stages[") || strings.HasPrefix(value, "failFast.") || strings.HasPrefix(value, "analysis.")
}

// reinstall brings back what a test removed of the chart, with other values for some.
func reinstall(t *testing.T, but ...string) error {
	t.Helper()
	return cluster.Install(t.Context(), slices.Concat(chartValues, but)...)
}

// reinstallAfter brings back, once a test has ended, what it removed of the chart, and waits until that resolves pins: confrev would not
// pin what the next test creates.
func reinstallAfter(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		// The test's own context has ended.
		ctx := context.Background()
		if err := cluster.Install(ctx, chartValues...); err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{true: "policy", false: "webhook"}[servesPolicies(t)]
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
			if confrev.Ended() {
				// It looks when it starts.
				return true, nil
			}
			by, err := confrev.PodAdmission(ctx)
			return by == want, err
		})
		if err != nil {
			t.Errorf("wait until pins are resolved by a %s again: %v", want, err)
		}
	})
}

func TestMain(m *testing.M) {
	code, err := run(m)
	cluster.Exit(code, err)
}

func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	flag.Parse()
	if err := choose(); err != nil {
		return 1, err
	}
	name := cmp.Or(os.Getenv("CONFREV_TEST_CLUSTER"), "e2e")
	flags := []string{env.ArgoRollouts}
	if version := os.Getenv("CONFREV_KUBERNETES"); version != "" {
		flags = append(flags, env.Kubernetes(version))
	}
	if cluster, err = env.Up(ctx, name, os.Stderr, flags...); err != nil {
		return 1, err
	}
	// ApplySets are an alpha feature of kubectl.
	if err := errors.Join(os.Setenv("KUBECONFIG", cluster.Kubeconfig), os.Setenv("KUBECTL_APPLYSET", "true")); err != nil {
		return 1, err
	}
	// At the same time, since compiling takes the processors, and the rest mostly waits. And now, since a build of minutes would
	// slow down every test that runs at that time.
	built := make(chan error, 1)
	go func() {
		path, err := cluster.Build(ctx, "confrev", true)
		binary = path
		_, pluginErr := buildPlugin()
		built <- errors.Join(err, pluginErr)
	}()
	err = errors.Join(removeWebApps(ctx), cluster.Install(ctx, chartValues...))
	for _, tool := range []string{"helm3", "kustomize", "flux-ssa", "gitops-engine", "cert-manager"} {
		_, toolErr := cluster.Tool(ctx, tool)
		err = errors.Join(err, toolErr)
	}
	if err = errors.Join(err, <-built); err != nil {
		return 1, err
	}
	if os.Getenv("CONFREV_LATE") != "" {
		if err := beLate(); err != nil {
			return 1, err
		}
	}
	began, err := cluster.AuditNow()
	if err != nil {
		return 1, err
	}
	config, err := configOfChart(ctx)
	if err != nil {
		return 1, err
	}
	confrev, err = cluster.Confrev(ctx, "confrev", binary, "--settle", settle.String(), "--grace", grace.String(), "--secrets",
		"--revisions-per-hour", "1000", "--rollouts-per-hour", "1000", "--compat", "reloader,wave", "--rotate", "external-secrets,vault,trust-manager", "--config", config,
		"--restart-on", "persistentvolumeclaims,webapps.e2e.confrev.io,storageclasses.storage.k8s.io", "--fail-fast", "--evict-stuck-pods", "--analysis",
		"--stages", listStages())
	if err != nil {
		return 1, err
	}
	if err := confrev.Start(ctx); err != nil {
		return 1, err
	}
	if err := cluster.WaitWebhook(ctx); err != nil {
		return 1, err
	}
	// Only now, so that confrev has to notice that its configured kind is served.
	if err := startOperator(ctx); err != nil {
		return 1, err
	}
	if err := waitHandled(ctx); err != nil {
		return 1, err
	}
	fmt.Fprintln(os.Stderr, "e2e: confrev logs to", confrev.Log)
	code = m.Run()
	if err := confrev.Stop(); err != nil {
		return 1, fmt.Errorf("confrev did not end well, see %s: %w", confrev.Log, err)
	}
	// Now, since watches are noted in full when they end.
	rights, err := cluster.ReportRights(ctx, began)
	if err != nil {
		return 1, err
	}
	fmt.Fprintln(os.Stderr, "e2e:", rights)
	return code, checkLog()
}

// beLate makes the API server answer confrev late, and tell it late of some changes, by up to two seconds. A test that fails only then most likely
// relies on a time.
func beLate() error {
	proxy, err := faults.New(cluster.Config, faults.Options{Seed: uint64(time.Now().UnixNano()), MaxLatency: 2 * time.Second, MaxHold: 2 * time.Second})
	if err != nil {
		return err
	}
	proxy.Set(faults.Chances{faults.Latency: 0.2, faults.Hold: 0.001})
	cluster.Proxy = proxy
	return nil
}

// checkLog looks for what tests may pass nevertheless, since reconcilers are called again.
func checkLog() error {
	log, err := os.ReadFile(confrev.Log)
	if wrong := "ValidatingAdmissionPolicy 'confrev-guard-"; bytes.Contains(log, []byte(wrong)) {
		err = errors.Join(err, fmt.Errorf("confrev logged %q, see %s", wrong, confrev.Log))
	}
	return errors.Join(err, confined(log))
}

// confinedOnPurpose is the namespace in which a test lets the policy that confines confrev's own account refuse something.
var confinedOnPurpose string

// confined complains of what that policy refused confrev itself: confrev must never try what it may not. A first refusal is tried
// again: the API server may not have seen yet that a namespace opts its workloads in. What is refused twice is said or logged as an
// error.
func confined(log []byte) error {
	for line := range bytes.Lines(log) {
		refused := bytes.Contains(line, []byte("reason="+revision.ConfinementRefused)) ||
			bytes.Contains(line, []byte("confines confrev's own account refused"))
		if refused && !bytes.Contains(line, []byte(`msg="looking again"`)) &&
			(confinedOnPurpose == "" || !bytes.Contains(line, []byte(confinedOnPurpose))) {
			return fmt.Errorf("confrev tried what its own account may not, see %s: %s", confrev.Log, line)
		}
	}
	return nil
}

// configOfChart writes the file that the chart mounts for --config.
func configOfChart(ctx context.Context) (path string, err error) {
	text, err := cluster.Kubectl(ctx, "--namespace", env.Namespace, "get", "configmap", "confrev", "-o", `jsonpath={.data.workloads\.yaml}`)
	if err != nil {
		return "", err
	}
	path = filepath.Join(cluster.Dir, "workloads.yaml")
	return path, os.WriteFile(path, []byte(text), 0o600)
}
