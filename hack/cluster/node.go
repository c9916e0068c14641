package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"confrev.io/confrev/hack/cluster/network"
	"confrev.io/confrev/hack/cluster/sandbox"
)

const (
	// nodeProcess is the first process of a real node. The others are its children, and the kernel ends them with it.
	nodeProcess = "node"
	nodeName    = "real"
)

// nodeTools are the directories of the binaries that a real node runs, by the names that insideTool takes.
type nodeTools map[string]string

// ensureNode builds what a real node runs in addition to the tools that are there already.
func ensureNode(ctx context.Context, l layout, tools nodeTools) error {
	if err := ensure(ctx, l, nodeComponents...); err != nil {
		return err
	}
	for _, m := range []module{moduleKubernetes, moduleContainerd, moduleCNI} {
		dir, err := l.binaries(m)
		if err != nil {
			return err
		}
		tools[m.dir] = dir
	}
	return nil
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
		settings, err := c.nodeSettings(ctx, tools)
		if err != nil {
			return err
		}
		if err := c.furnishNode(ctx, settings); err != nil {
			return err
		}
		if err := c.launchNode(); err != nil {
			return err
		}
		if err := c.waitNode(ctx, settings.KubeletPort); err != nil {
			// Half a node would look like a whole one to the next run.
			return errors.Join(err, c.stopNode(context.WithoutCancel(ctx)))
		}
		return nil
	})
}

// furnishNode makes all that a node finds when it starts.
func (c cluster) furnishNode(ctx context.Context, settings nodeSettings) error {
	// Of a node that was killed, cgroups may be left. The kubelet would look for their containers for long.
	if err := removeCgroups(ctx, cgroupOf(c.name)); err != nil {
		return err
	}
	if err := sandbox.MakeCgroup(cgroupOf(c.name)); err != nil {
		return err
	}
	if err := c.writeNodeFiles(settings); err != nil {
		return err
	}
	if err := c.makeImages(ctx); err != nil {
		return err
	}
	return c.createNode(ctx, settings.Network)
}

// launchNode starts this program again as the first process of the node.
func (c cluster) launchNode() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start the node: %w", err)
	}
	cmd := exec.Command(self, "node", "init", c.node(c.name)+string(filepath.Separator))
	sandbox.Isolate(cmd)
	return startCommand(c.layout, c.name, nodeProcess, cmd)
}

// nodeObject is made before the kubelet comes, as a cloud provider would: without a name as another address, which the API server
// would try first and which no DNS knows.
var nodeObject = `{
  "apiVersion": "v1", "kind": "Node",
  "metadata": {"name": "` + nodeName + `", "labels": {
    "` + nodeKey + `": "` + nodeName + `", "kubernetes.io/hostname": "` + nodeName + `",
    "kubernetes.io/os": "linux", "kubernetes.io/arch": "` + runtime.GOARCH + `"}},
  "spec": {"taints": {{taints}}},
  "status": {"addresses": [{"type": "InternalIP", "address": "{{address}}"}]}
}`

func (c cluster) createNode(ctx context.Context, own network.Network) error {
	found, err := c.kubectlCommand("get", "node", nodeName, "--ignore-not-found", "-o", "name").output(ctx)
	if err != nil || found != "" {
		return err
	}
	simulated, err := c.simulatedNodes(ctx)
	if err != nil {
		return err
	}
	taints := "[]"
	if simulated {
		// Pods must ask for this node, since those of the others have images that do not exist.
		taints = `[{"key": "` + nodeKey + `", "value": "` + nodeName + `", "effect": "NoSchedule"}]`
	}
	create := c.kubectlCommand("create", "-f", "-")
	create.stdin = strings.NewReader(fill(nodeObject, "{{address}}", own.Node().String(), "{{taints}}", taints))
	return create.run(ctx)
}

// anyPort is for a kubelet that was started before.
const anyPort = 0

// waitNode waits until the kubelet with that port has said that the node is ready. What the API server says of a node
// that was stopped is old, and names another port.
func (c cluster) waitNode(ctx context.Context, port int) error {
	own, err := c.network(c.name)
	if err != nil {
		return err
	}
	missing, process := "the real node is not ready", "kubelet"
	err = poll(ctx, time.Minute, func() (bool, error) {
		if livePid(c.layout, c.name, nodeProcess) == 0 {
			return false, withLog(errors.New("the real node ended"), c.endedLog())
		}
		if !c.nodeReady(ctx, port) {
			return false, nil
		}
		missing, process = "Service kubernetes does not lead to the API server (has this machine a firewall?)", "kube-proxy"
		return answersAPI(own), nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return withLog(errors.New(missing+" after a minute"), c.layout.log(c.name, process))
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
	for _, process := range nodeProcesses {
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

// answersAPI reports whether Service "kubernetes" leads to the API server: from the machine to the node, through the rules of its
// kube-proxy, and back over the link.
func answersAPI(own network.Network) bool {
	connection, err := net.DialTimeout("tcp", netip.AddrPortFrom(own.APIService(), 443).String(), time.Second)
	if err != nil {
		return false
	}
	return connection.Close() == nil
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

// removeCgroups removes a cgroup whose processes have ended.
func removeCgroups(ctx context.Context, cgroup string) error {
	if err := poll(ctx, 10*time.Second, func() (bool, error) { return sandbox.RemoveCgroups(cgroup) }); err != nil {
		return fmt.Errorf("remove cgroup %s: %w", cgroup, err)
	}
	return nil
}
