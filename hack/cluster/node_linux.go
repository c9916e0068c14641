package main

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// isolate makes a command the first process of mount and process namespaces of its own. Whatever it and its
// descendants mount is seen by them only and goes with the last of them, and they all end with it.
func isolate(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNS | syscall.CLONE_NEWPID
}

// bind shows a directory of the machine at another path.
type bind struct{ from, to string }

// enterNode makes this process, the first of its namespaces, see the machine as a node of its own: with empty /run and
// /var, so that the fixed paths of containerd, its shims and the kubelet are this cluster's, and the given directories.
func enterNode(binds []bind) error {
	const oPath = 0x200000 // O_PATH: not to read, only to mount from
	sources := make([]string, 0, len(binds))
	for _, b := range binds {
		// Opened first, since they may be below what is hidden next.
		fd, err := syscall.Open(b.from, oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", b.from, err)
		}
		defer func() { _ = syscall.Close(fd) }()
		sources = append(sources, fmt.Sprintf("/proc/self/fd/%d", fd))
	}
	if err := mountAll([]mountCall{
		{target: "/", flags: syscall.MS_REC | syscall.MS_PRIVATE},
		{source: "proc", target: "/proc", kind: "proc", flags: syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC},
		{source: "run", target: "/run", kind: "tmpfs"},
		{source: "var", target: "/var", kind: "tmpfs"},
	}); err != nil {
		return err
	}
	if err := os.MkdirAll("/var/tmp", 0o777|fs.ModeSticky); err != nil {
		return err
	}
	for i, b := range binds {
		if err := os.MkdirAll(b.to, 0o755); err != nil {
			return err
		}
		if err := mountAll([]mountCall{{source: sources[i], target: b.to, flags: syscall.MS_BIND}}); err != nil {
			return err
		}
	}
	return nil
}

type mountCall struct {
	source, target, kind string
	flags                uintptr
}

func mountAll(calls []mountCall) error {
	for _, c := range calls {
		if err := syscall.Mount(c.source, c.target, c.kind, c.flags, ""); err != nil {
			return fmt.Errorf("mount %s on %s: %w", c.source, c.target, err)
		}
	}
	return nil
}

// environment returns that of the node's processes.
func environment() []string {
	return append(os.Environ(), "TMPDIR=/var/tmp",
		"PATH="+strings.Join([]string{insideTool("containerd"), insideTool("runc"), os.Getenv("PATH")}, ":"))
}

// nodeInit runs as the first process of a node: it starts containerd and the kubelet, and ends when it is told to or when
// one of them has ended. It also collects the processes whose parents ended.
func nodeInit(ctx context.Context, dir string, tools nodeTools) error {
	n := node{children: newChildren(), logs: map[string]*os.File{}}
	for _, name := range []string{"containerd", "kubelet"} {
		log, err := openLog(filepath.Join(dir, "..", "logs", name+".log"))
		if err != nil {
			return err
		}
		n.logs[name] = log
	}
	err := enterNode([]bind{
		{dir, insideNode},
		{filepath.Join(dir, "containerd"), "/var/lib/containerd"},
		{filepath.Join(dir, "kubelet"), "/var/lib/kubelet"},
		{filepath.Join(dir, "log"), "/var/log"},
		{tools.kubernetes, insideTool("kubernetes")},
		{tools.containerd, insideTool("containerd")},
		{tools.runc, insideTool("runc")},
	})
	if err != nil {
		return err
	}
	return n.run(ctx)
}

type node struct {
	children *children
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
		"--config", insideNode+"/kubelet.yaml", "--kubeconfig", insideNode+"/kubeconfig.yaml",
		"--hostname-override", nodeName,
		// The node's address was set; see nodeObject.
		"--cloud-provider", "external")
	if err != nil {
		return err
	}
	select {
	case status := <-containerd.ended:
		return fmt.Errorf("containerd ended with status %d, see containerd.log", status.ExitStatus())
	case status := <-kubelet.ended:
		return fmt.Errorf("the kubelet ended with status %d, see kubelet.log", status.ExitStatus())
	case <-ctx.Done():
		// Both in good order; the kernel ends the rest (shims, containers) with this process.
		kubelet.stop()
		containerd.stop()
		return nil
	}
}

func (n node) start(name, binary string, args ...string) (child, error) {
	cmd := exec.Command(binary, args...)
	cmd.Env = environment()
	cmd.Stdout, cmd.Stderr = n.logs[name], n.logs[name]
	return n.children.start(cmd)
}

// importImages imports the images into containerd, once it serves.
func (n node) importImages(ctx context.Context, containerd child) error {
	err := poll(ctx, 30*time.Second, func() (bool, error) {
		select {
		case status := <-containerd.ended:
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
		ctr, err := n.start("containerd", insideTool("containerd")+"/ctr", "--namespace", "k8s.io", "images", "import",
			"--local", "--snapshotter", "native", file)
		if err != nil {
			return err
		}
		if status := <-ctr.ended; status.ExitStatus() != 0 {
			return fmt.Errorf("import %s: status %d, see containerd.log", file, status.ExitStatus())
		}
	}
	return nil
}

// nodeTrial runs the container of a bundle to its end.
func nodeTrial(ctx context.Context, dir, runc string) error {
	if err := enterNode([]bind{{dir, insideNode}, {runc, insideTool("runc")}}); err != nil {
		return err
	}
	args := []string{"--root", "/run/runc", "run", "--bundle", insideNode, "trial"}
	_, err := command{name: insideTool("runc") + "/runc", args: args}.output(ctx)
	return err
}
