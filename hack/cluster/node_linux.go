package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"confrev.io/confrev/hack/cluster/network"
	"confrev.io/confrev/hack/cluster/sandbox"
)

// environment returns that of the node's processes.
func environment() []string {
	return append(os.Environ(), "TMPDIR=/var/tmp",
		"PATH="+strings.Join([]string{insideTool("containerd"), insideTool("runc"), insideTool("nft"), os.Getenv("PATH")}, ":"))
}

// nftEnvironment lets nft find its libraries, if they were unpacked with it.
func nftEnvironment() []string { return append(environment(), "LD_LIBRARY_PATH="+insideTool("nft")) }

// nodeInit runs as the first process of a node: it starts containerd, kube-proxy and the kubelet in a network of their own, and
// ends when it is told to or when one of them has ended. It also collects the processes whose parents ended. It stays in the machine's
// network itself, to lead the node to the API server.
func nodeInit(ctx context.Context, dir string) error {
	settings, err := readNodeSettings(dir)
	if err != nil {
		return err
	}
	n := node{children: sandbox.NewChildren(), logs: map[string]*os.File{}}
	for _, name := range nodeProcesses {
		log, err := openLog(filepath.Join(dir, "..", "logs", name+".log"))
		if err != nil {
			return err
		}
		n.logs[name] = log
	}
	binds := []sandbox.Bind{
		{From: dir, To: insideNode},
		{From: filepath.Join(dir, "containerd"), To: "/var/lib/containerd"},
		{From: filepath.Join(dir, "kubelet"), To: "/var/lib/kubelet"},
		{From: filepath.Join(dir, "log"), To: "/var/log"},
	}
	for tool, from := range settings.Tools {
		binds = append(binds, sandbox.Bind{From: from, To: insideTool(tool)})
	}
	if err := sandbox.Enter(binds); err != nil {
		return err
	}
	if n.network, err = network.Enter(); err != nil {
		return err
	}
	device := settings.Network.Device(project.name)
	if err := n.network.Join(settings.Network, device); err != nil {
		return err
	}
	if err := network.ForwardAPI(settings.Network, device, settings.APIPort); err != nil {
		return err
	}
	return n.run(ctx)
}

type node struct {
	children *sandbox.Children
	network  network.Namespace
	logs     map[string]*os.File
}

func (n node) run(ctx context.Context) error {
	containerd, err := n.start("containerd", insideTool("containerd")+"/containerd", "--config", insideNode+"/containerd.toml")
	if err != nil {
		return err
	}
	if err := n.importImages(ctx, containerd); err != nil {
		return err
	}
	kubelet, err := n.start("kubelet", insideTool("kubernetes")+"/kubelet",
		"--config", insideNode+"/kubelet.yaml", "--kubeconfig", insideNode+"/kubelet.kubeconfig.yaml",
		"--hostname-override", nodeName,
		// The node's addresses were set; see nodeObject.
		"--cloud-provider", "external")
	if err != nil {
		return err
	}
	proxy, err := n.start("kube-proxy", insideTool("kubernetes")+"/kube-proxy", "--config", insideNode+"/kube-proxy.yaml")
	if err != nil {
		return err
	}
	select {
	case status := <-containerd.Ended:
		return fmt.Errorf("containerd ended with status %d, see containerd.log", status.ExitStatus())
	case status := <-kubelet.Ended:
		return fmt.Errorf("the kubelet ended with status %d, see kubelet.log", status.ExitStatus())
	case status := <-proxy.Ended:
		return fmt.Errorf("kube-proxy ended with status %d, see kube-proxy.log", status.ExitStatus())
	case <-ctx.Done():
		// Both in good order; the kernel ends the rest (shims, containers) with this process.
		kubelet.Stop()
		containerd.Stop()
		return nil
	}
}

// start starts a program in the node's network.
func (n node) start(name, binary string, args ...string) (started sandbox.Child, err error) {
	cmd := exec.Command(binary, args...)
	cmd.Env = environment()
	if name == "kube-proxy" {
		cmd.Env = nftEnvironment()
	}
	cmd.Stdout, cmd.Stderr = n.logs[name], n.logs[name]
	err = n.network.Run(func() (err error) {
		started, err = n.children.Start(cmd)
		return err
	})
	return started, err
}

// importImages imports the images into containerd, once it serves.
func (n node) importImages(ctx context.Context, containerd sandbox.Child) error {
	err := poll(ctx, 30*time.Second, func() (bool, error) {
		select {
		case status := <-containerd.Ended:
			return false, fmt.Errorf("containerd ended with status %d, see containerd.log", status.ExitStatus())
		default:
		}
		connection, err := net.Dial("unix", "/run/containerd/containerd.sock")
		if err != nil {
			return false, nil //nolint:nilerr // not yet listening
		}
		return true, connection.Close()
	})
	if err != nil {
		return fmt.Errorf("wait for containerd: %w", err)
	}
	images, err := filepath.Glob(insideNode + "/images/*.tar")
	if err != nil {
		return err
	}
	for _, file := range images {
		ctr, err := n.start("containerd", insideTool("containerd")+"/ctr", ctrImport(file)...)
		if err != nil {
			return err
		}
		if status := <-ctr.Ended; status.ExitStatus() != 0 {
			return fmt.Errorf("import %s: status %d, see containerd.log", file, status.ExitStatus())
		}
	}
	return nil
}

// nodeTrial makes a network as a node has, with another namespace in the machine's place, and runs the container of a bundle to its end.
func nodeTrial(ctx context.Context, dir, runc, nft string) error {
	if err := sandbox.Enter([]sandbox.Bind{{From: dir, To: insideNode}, {From: runc, To: insideTool("runc")}, {From: nft, To: insideTool("nft")}}); err != nil {
		return err
	}
	machine, errMachine := network.Enter()
	node, errNode := network.Enter()
	if err := errors.Join(errMachine, errNode); err != nil {
		return err
	}
	rules := exec.Command(insideTool("nft") + "/nft")
	rules.Env = nftEnvironment()
	if err := machine.Run(func() error { return node.Try(rules) }); err != nil {
		return err
	}
	args := []string{"--root", "/run/runc", "run", "--bundle", insideNode, "trial"}
	_, err := command{name: insideTool("runc") + "/runc", args: args}.output(ctx)
	return err
}
