package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
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

// ensureNode builds what a real node runs in addition to runc.
func ensureNode(ctx context.Context, l layout, runc string) (nodeTools, error) {
	if err := ensure(ctx, l, nodeComponents...); err != nil {
		return nodeTools{}, err
	}
	kubernetes, errKubernetes := l.binaries(moduleKubernetes)
	containerd, errContainerd := l.binaries(moduleContainerd)
	return nodeTools{kubernetes, containerd, runc}, errors.Join(errKubernetes, errContainerd)
}

// hasNode reports whether the cluster once got a real node, running or not.
func (l layout) hasNode(name string) bool {
	_, err := os.Stat(l.node(name))
	return err == nil
}

// startNode makes the real node run, and waits until it is ready.
func (c cluster) startNode(ctx context.Context, tools nodeTools) error {
	if livePid(c.layout, c.name, nodeProcess) != 0 {
		say("the real node already runs")
		return c.waitNode(ctx, anyPort)
	}
	return step(ctx, "start the real node", func(ctx context.Context) error {
		ports, err := freePorts(1)
		if err != nil {
			return err
		}
		settings := kubeletSettings{Port: ports[0], Cgroup: cgroupOf(c.name)}
		if err := c.furnishNode(ctx, settings); err != nil {
			return err
		}
		if err := c.launchNode(tools); err != nil {
			return err
		}
		if err := c.waitNode(ctx, settings.Port); err != nil {
			// Half a node would look like a whole one to the next run.
			return errors.Join(err, c.stopNode(context.WithoutCancel(ctx)))
		}
		return nil
	})
}

// furnishNode makes all that a node finds when it starts.
func (c cluster) furnishNode(ctx context.Context, settings kubeletSettings) error {
	// Of a node that was killed, cgroups may be left. The kubelet would look for their containers for long.
	if err := removeCgroups(ctx, settings.Cgroup); err != nil {
		return err
	}
	if err := makeCgroup(settings.Cgroup); err != nil {
		return err
	}
	if err := c.writeNodeFiles(ctx, settings); err != nil {
		return err
	}
	if err := c.makeImages(ctx); err != nil {
		return err
	}
	return c.createNode(ctx)
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

// nodeObject is made before the kubelet comes, as a cloud provider would: a kubelet by itself refuses to have an
// address of the loopback interface. Pods must ask for this node, since those of KWOK's nodes have images that do not
// exist.
var nodeObject = `{
  "apiVersion": "v1", "kind": "Node",
  "metadata": {"name": "` + nodeName + `", "labels": {
    "` + nodeKey + `": "` + nodeName + `", "kubernetes.io/hostname": "` + nodeName + `",
    "kubernetes.io/os": "linux", "kubernetes.io/arch": "` + runtime.GOARCH + `"}},
  "spec": {"taints": [{"key": "` + nodeKey + `", "value": "` + nodeName + `", "effect": "NoSchedule"}]},
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

// anyPort is for a kubelet that was started before.
const anyPort = 0

// waitNode waits until the kubelet with that port has said that the node is ready. What the API server says of a node
// that was stopped is old, and names another port.
func (c cluster) waitNode(ctx context.Context, port int) error {
	err := poll(ctx, time.Minute, func() (bool, error) {
		if livePid(c.layout, c.name, nodeProcess) == 0 {
			return false, withLog(errors.New("the real node ended"), c.endedLog())
		}
		return c.nodeReady(ctx, port), nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return withLog(errors.New("the real node is not ready after a minute"), c.layout.log(c.name, "kubelet"))
	}
	return err
}

// endedLog returns the log that says why the node ended. The node's own may name that of the process which ended first.
func (c cluster) endedLog() string {
	own := c.layout.log(c.name, nodeProcess)
	content, err := os.ReadFile(own)
	if err != nil {
		return own
	}
	for _, process := range []string{"containerd", "kubelet"} {
		if strings.Contains(lastLine(string(content)), process+".log") {
			return c.layout.log(c.name, process)
		}
	}
	return own
}

func (c cluster) nodeReady(ctx context.Context, port int) bool {
	const look = `{.status.daemonEndpoints.kubeletEndpoint.Port} {.status.conditions[?(@.type=="Ready")].status}`
	out, err := c.kubectlCommand("get", "node", nodeName, "-o", "jsonpath="+look).output(ctx)
	said, status, _ := strings.Cut(out, " ")
	return err == nil && status == "True" && (port == anyPort || said == strconv.Itoa(port))
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
	return removeCgroups(ctx, cgroupOf(c.name))
}
