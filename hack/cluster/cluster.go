package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"confrev.io/confrev/hack/cluster/network"
)

var (
	//go:embed kwokctl.yaml
	kwokctlSettings string
	//go:embed audit-policy.yaml
	auditPolicy string
	//go:embed admission.yaml
	admission string
	//go:embed webhooks.yaml
	webhooks string
	//go:embed stages.yaml
	stageSettings string
)

// stages are those that every cluster gets, besides KWOK's own.
var stages = fill(stageSettings)

// cluster is one named cluster and the tools that manage it.
type cluster struct {
	layout
	name             string
	kubectl, kwokctl string
	log              string // of the tools' output
}

func newCluster(l layout, name string) (cluster, error) {
	kubectl, errKubectl := l.binary("kubectl")
	kwokctl, errKwokctl := l.binary("kwokctl")
	if err := errors.Join(errKubectl, errKwokctl); err != nil {
		return cluster{}, err
	}
	return cluster{layout: l, name: name, kubectl: kubectl, kwokctl: kwokctl, log: l.verbLog("up", name)}, nil
}

func (c cluster) runKwokctl(ctx context.Context, args ...string) error {
	return command{
		log: c.log, name: c.kwokctl, args: append([]string{"--name", c.name}, args...),
		env: []string{
			"KWOK_WORKDIR=" + c.state,
			"KWOK_CACHE_DIR=" + filepath.Join(c.cache, "downloads"),
			// It would win over the version in the cluster's own settings.
			"KWOK_KUBE_VERSION=",
			"KWOK_KUBECTL_BINARY=" + c.kubectl,
		},
	}.run(ctx)
}

func (c cluster) kubectlCommand(args ...string) command {
	return command{log: c.log, name: c.kubectl, args: append([]string{"--kubeconfig", c.kubeconfig(c.name)}, args...)}
}

func (c cluster) create(ctx context.Context, o upOptions, download bool) error {
	if o.port != 0 {
		if err := portIsFree(o.port); err != nil {
			return err
		}
	}
	args, err := c.createArgs(o, download)
	if err != nil {
		return err
	}
	return step(ctx, fmt.Sprintf("create cluster %q", c.name), func(ctx context.Context) error {
		if err := c.runKwokctlStarting(ctx, args...); err != nil {
			// What is left of a creation that failed would look like a cluster that was stopped.
			return errors.Join(err, c.remove(context.WithoutCancel(ctx)))
		}
		// On one machine, compression costs processor time and saves nothing.
		plain := c.kubectlCommand("config", "set", "clusters.kwok-"+c.name+".disable-compression", "true")
		return errors.Join(plain.run(ctx), c.waitRunning(ctx))
	})
}

// createArgs writes the settings to files, since kwokctl takes no others, and returns kwokctl's arguments.
func (c cluster) createArgs(o upOptions, download bool) ([]string, error) {
	version, err := c.version(o.kubernetes.module)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.cluster(c.name), 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of the cluster: %w", err)
	}
	taken, err := network.Addresses()
	if err != nil {
		return nil, err
	}
	own, err := c.chooseNetwork(c.name, taken)
	if err != nil {
		return nil, err
	}
	settings, policy, dir := filepath.Join(c.state, "kwokctl.yaml"), filepath.Join(c.state, "audit-policy.yaml"), c.cluster(c.name)
	write := func(path, content string) error {
		content = fill(content, "{{kubernetes}}", version, "{{cluster}}", dir, "{{pki}}", filepath.Join(dir, "pki"),
			"{{services}}", own.Services().String(), "{{apiservice}}", own.APIService().String(), "{{machine}}", own.Machine().String())
		return os.WriteFile(path, []byte(content), 0o644)
	}
	// The API server reads the last two at each start.
	err = errors.Join(write(settings, kwokctlSettings), write(policy, auditPolicy),
		write(filepath.Join(dir, "admission.yaml"), admission), write(filepath.Join(dir, "webhooks.yaml"), webhooks))
	if err != nil {
		return nil, fmt.Errorf("write the settings of the cluster: %w", err)
	}
	kwok, err := c.binary("kwok")
	if err != nil {
		return nil, err
	}
	args := []string{
		"create", "cluster", "--config", settings, "--kube-audit-policy", policy,
		// Not ~/.kube/config: no one asked for another current context.
		"--kubeconfig", "",
		"--kwok-controller-binary", kwok,
	}
	if o.port != 0 {
		args = append(args, "--kube-apiserver-port", strconv.Itoa(o.port))
	}
	if download {
		return args, nil
	}
	for _, name := range controlPlane {
		path, err := c.binary(o.kubernetes.component(name))
		if err != nil {
			return nil, err
		}
		args = append(args, "--"+name+"-binary", path)
	}
	return args, nil
}

func (c cluster) restart(ctx context.Context) error {
	return step(ctx, fmt.Sprintf("start cluster %q", c.name), func(ctx context.Context) error {
		if err := c.startDead(ctx); err != nil {
			return err
		}
		if err := c.waitServing(ctx); err != nil {
			return err
		}
		return c.restartKwok(ctx)
	})
}

// restartKwok lets KWOK begin with everything that it needs in place: what it misses at its start (an API server, the
// kind Stage), it asks for again only after seconds.
func (c cluster) restartKwok(ctx context.Context) error {
	if err := stopProcess(ctx, c.layout, c.name, "kwok-controller"); err != nil {
		return err
	}
	if err := c.startDead(ctx); err != nil {
		return err
	}
	return c.waitRunning(ctx)
}

// startDead starts those of the cluster's processes that do not run.
func (c cluster) startDead(ctx context.Context) error {
	if err := dropStalePids(c.layout, c.name); err != nil {
		return err
	}
	return c.runKwokctlStarting(ctx, "start", "cluster")
}

// runKwokctlStarting runs a verb of kwokctl that waits for the API server, and stops waiting once that has ended:
// kwokctl by itself continues for two minutes.
func (c cluster) runKwokctlStarting(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		cancel(poll(ctx, 0, c.endedSoon()))
	}()
	if err := c.runKwokctl(ctx, args...); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	return nil
}

// endedSoon makes a condition that fails once etcd or the API server was started and has ended. It wants to see that
// twice, since a pid file that is just being written is empty.
func (c cluster) endedSoon() func() (bool, error) {
	seen := map[string]int{}
	return func() (bool, error) {
		for _, process := range []string{"etcd", "kube-apiserver"} {
			_, err := os.Stat(c.pid(c.name, process))
			if err != nil || livePid(c.layout, c.name, process) != 0 {
				seen[process] = 0
				continue
			}
			if seen[process]++; seen[process] == 2 {
				return false, c.endedError(process)
			}
		}
		return false, nil
	}
}

func (c cluster) endedError(process string) error {
	return withLog(fmt.Errorf("%s ended", process), c.layout.log(c.name, process))
}

// remove stops the cluster's processes and deletes its directory.
func (c cluster) remove(ctx context.Context) error {
	if err := errors.Join(c.stopNode(ctx), c.stopRollouts(ctx)); err != nil {
		return err
	}
	if err := dropStalePids(c.layout, c.name); err != nil {
		return err
	}
	if c.exists(c.name) {
		// kwokctl insists on a kubeconfig to take the context from; this one goes away with the cluster.
		if err := c.runKwokctl(ctx, "delete", "cluster", "--kubeconfig", c.kubeconfig(c.name)); err != nil {
			return err
		}
	}
	for _, process := range clusterProcesses {
		if err := stopProcess(ctx, c.layout, c.name, process); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(c.cluster(c.name)); err != nil {
		return fmt.Errorf("delete the cluster's directory: %w", err)
	}
	return nil
}

func (c cluster) ready(ctx context.Context) bool {
	out, err := c.kubectlCommand("get", "--raw", "/readyz", "--request-timeout", "5s").output(ctx)
	return err == nil && out == "ok"
}

// waitRunning waits until the API server is ready and all processes run.
func (c cluster) waitRunning(ctx context.Context) error {
	if err := c.waitServing(ctx); err != nil {
		return err
	}
	// Without an API server for ten seconds, as on a slow machine, controller manager and scheduler give up.
	if len(deadProcesses(c.layout, c.name)) > 0 {
		if err := c.startDead(ctx); err != nil {
			return err
		}
	}
	if dead := deadProcesses(c.layout, c.name); len(dead) > 0 {
		return c.endedError(dead[0])
	}
	return nil
}

// startTimeout is how long a part of a cluster may take to start. It matters on a busy machine only: what ends is reported at once.
const startTimeout = 4 * time.Minute

// waitServing waits until the API server is ready, unless it or etcd ends.
func (c cluster) waitServing(ctx context.Context) error {
	err := poll(ctx, startTimeout, func() (bool, error) {
		for _, process := range []string{"etcd", "kube-apiserver"} {
			if livePid(c.layout, c.name, process) == 0 {
				return false, c.endedError(process)
			}
		}
		return c.ready(ctx), nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return withLog(errors.New("the API server is not ready after "+startTimeout.String()), c.layout.log(c.name, "kube-apiserver"))
	}
	return err
}

// applyStages installs the stages of KWOK: its own for nodes and pods, and ours. Not at each start, since a demo changes them.
func (c cluster) applyStages(ctx context.Context) error {
	dir, err := c.sourceDir(ctx, moduleKwok)
	if err != nil {
		return err
	}
	stage := func(file string) string { return filepath.Join(dir, "kustomize", "stage", filepath.FromSlash(file)) }
	apply := c.kubectlCommand("apply", "-f", stage("node/fast/node-initialize.yaml"), "-f", stage("pod/fast/pod-ready.yaml"),
		"-f", stage("pod/fast/pod-complete.yaml"), "-f", stage("pod/fast/pod-delete.yaml"), "-f", "-")
	apply.stdin = strings.NewReader(stages)
	if err := apply.run(ctx); err != nil {
		return fmt.Errorf("apply KWOK's stages: %w", err)
	}
	return c.restartKwok(ctx)
}

func (c cluster) scaleNodes(ctx context.Context, nodes int) error {
	return step(ctx, fmt.Sprintf("scale to %d nodes", nodes), func(ctx context.Context) error {
		return c.runKwokctl(ctx, "scale", "node", "--replicas", strconv.Itoa(nodes))
	})
}

// waitUsable waits until a pod could be created and would run: nodes are ready, the namespace has its account.
func (c cluster) waitUsable(ctx context.Context) error {
	return step(ctx, "wait for nodes", func(ctx context.Context) error {
		simulated, err := c.simulatedNodes(ctx)
		if simulated && err == nil {
			// A real node says so when it is started.
			err = c.kubectlCommand("wait", "nodes", "--selector", simulatedNode, "--for", "condition=Ready", "--timeout", startTimeout.String()).run(ctx)
		}
		if err != nil {
			return fmt.Errorf("%w; see also %s", err, c.layout.log(c.name, "kwok-controller"))
		}
		account := c.kubectlCommand("wait", "serviceaccount/default", "--namespace", "default", "--for", "create", "--timeout", startTimeout.String())
		if err := account.run(ctx); err != nil {
			return fmt.Errorf("%w; see also %s", err, c.layout.log(c.name, "kube-controller-manager"))
		}
		return nil
	})
}

// simulatedNode selects KWOK's nodes.
var simulatedNode = nodeKey + "!=" + nodeName

// simulatedNodes reports whether the cluster has nodes of KWOK's.
func (c cluster) simulatedNodes(ctx context.Context) (bool, error) {
	names, err := c.kubectlCommand("get", "nodes", "--selector", simulatedNode, "-o", "name").output(ctx)
	return names != "", err
}

// sourceDir returns where the source of a module's main dependency is; the go command fetches it if need be.
func (c cluster) sourceDir(ctx context.Context, m module) (string, error) {
	out, err := command{
		dir: filepath.Join(c.modules, m.dir), name: "go", args: []string{"mod", "download", "-json", m.requires},
		env: []string{"GOWORK=off", "GOFLAGS="},
	}.output(ctx)
	if err != nil {
		return "", fmt.Errorf("find the source of %s: %w", m.requires, err)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		return "", fmt.Errorf("find the source of %s: %w", m.requires, err)
	}
	return found.Dir, nil
}
