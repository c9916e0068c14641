package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	// nodeProcess is the first process of a real node. The others are its children, and the kernel ends them with it.
	nodeProcess = "node"
	nodeName    = "real"
)

// nodeTools are the directories of the binaries that a real node runs.
type nodeTools struct {
	kubernetes, containerd, runc string
}

// prepareNode makes sure that this machine can run a real node, before anything is built, and of the binaries.
func prepareNode(ctx context.Context, l layout) (nodeTools, error) {
	runc, err := checkNode(ctx, l)
	if err != nil {
		return nodeTools{}, err
	}
	if err := ensure(ctx, l, nodeComponents...); err != nil {
		return nodeTools{}, err
	}
	kubernetes, errKubernetes := l.binaries(moduleKubernetes)
	containerd, errContainerd := l.binaries(moduleContainerd)
	return nodeTools{kubernetes, containerd, runc}, errors.Join(errKubernetes, errContainerd)
}

// hasNode tells whether the cluster once got a real node, running or not.
func (l layout) hasNode(name string) bool {
	_, err := os.Stat(l.node(name))
	return err == nil
}

// startNode makes the real node run, and waits until it is ready.
func (c cluster) startNode(ctx context.Context, tools nodeTools) error {
	if livePid(c.layout, c.name, nodeProcess) != 0 {
		say("the real node already runs")
		return nil
	}
	return step(ctx, "start the real node", func(ctx context.Context) error {
		// Of a node that was killed, cgroups may be left. The kubelet would look for their containers for long.
		if err := removeCgroups(ctx, c.cgroup()); err != nil {
			return err
		}
		if err := makeCgroup(c.cgroup()); err != nil {
			return err
		}
		ports, err := freePorts(2)
		if err != nil {
			return err
		}
		settings := kubeletSettings{Port: ports[0], HealthPort: ports[1], Cgroup: c.cgroup()}
		if err := errors.Join(c.writeNodeFiles(ctx, settings), c.makeImages(ctx)); err != nil {
			return err
		}
		if err := c.createNode(ctx); err != nil {
			return err
		}
		begin := time.Now()
		if err := c.launchNode(tools); err != nil {
			return err
		}
		return c.waitNode(ctx, settings.HealthPort, begin)
	})
}

// launchNode starts this program again as the first process of the node.
func (c cluster) launchNode(tools nodeTools) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start the node: %w", err)
	}
	cmd := exec.Command(self, "node", "init", c.node(c.name)+string(filepath.Separator), tools.kubernetes, tools.containerd, tools.runc)
	isolate(cmd)
	return startCommand(c.layout, c.name, nodeProcess, cmd)
}

// cgroup is below which all cgroups of the node's containers are.
func (c cluster) cgroup() string { return "/confrev-" + c.name }

// nodeObject is made before the kubelet comes, as a cloud provider would: a kubelet by itself refuses to have an
// address of the loopback interface. Pods must ask for this node, since those of KWOK's nodes have images that do not
// exist.
const nodeObject = `{
  "apiVersion": "v1", "kind": "Node",
  "metadata": {"name": "` + nodeName + `", "labels": {
    "confrev.io/node": "real", "kubernetes.io/hostname": "` + nodeName + `", "kubernetes.io/os": "linux", "kubernetes.io/arch": "` + runtime.GOARCH + `"}},
  "spec": {"taints": [{"key": "confrev.io/node", "value": "real", "effect": "NoSchedule"}]},
  "status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}
}`

func (c cluster) createNode(ctx context.Context) error {
	found, err := c.kubectlCommand("get", "node", nodeName, "--ignore-not-found", "-o", "name").output(ctx)
	if err != nil || found != "" {
		return err
	}
	create := c.kubectlCommand("create", "-f", "-")
	create.stdin = strings.NewReader(nodeObject)
	return create.run(ctx)
}

// waitNode waits until the kubelet serves and has said that the node is ready, later than begin: what the API server
// says of a node that was stopped is old.
func (c cluster) waitNode(ctx context.Context, healthPort int, begin time.Time) error {
	health := fmt.Sprintf("http://127.0.0.1:%d/healthz", healthPort)
	logs := fmt.Sprintf("see also %s and %s", c.layout.log(c.name, "kubelet"), c.layout.log(c.name, "containerd"))
	err := poll(ctx, time.Minute, func() (bool, error) {
		if livePid(c.layout, c.name, nodeProcess) == 0 {
			return false, withLog(fmt.Errorf("the real node ended (%s)", logs), c.layout.log(c.name, nodeProcess))
		}
		return healthy(ctx, health) && c.nodeReadySince(ctx, begin), nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return withLog(fmt.Errorf("the real node is not ready after a minute (%s)", logs), c.layout.log(c.name, "kubelet"))
	}
	return err
}

func healthy(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func (c cluster) nodeReadySince(ctx context.Context, begin time.Time) bool {
	const ready = `{range .status.conditions[?(@.type=="Ready")]}{.status} {.lastHeartbeatTime}{end}`
	out, err := c.kubectlCommand("get", "node", nodeName, "-o", "jsonpath="+ready).output(ctx)
	if err != nil {
		return false
	}
	status, heartbeat, _ := strings.Cut(out, " ")
	at, err := time.Parse(time.RFC3339, heartbeat)
	// Heartbeats have whole seconds.
	return err == nil && status == "True" && !at.Before(begin.Truncate(time.Second))
}

// stopNode ends kubelet, containerd and all containers, as a reboot does. Pods come back when the node is started.
func (c cluster) stopNode(ctx context.Context) error {
	if !c.hasNode(c.name) {
		return nil
	}
	if err := stopProcess(ctx, c.layout, c.name, nodeProcess); err != nil {
		return err
	}
	if err := os.Remove(c.pid(c.name, nodeProcess)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the real node: %w", err)
	}
	return removeCgroups(ctx, c.cgroup())
}
