package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"confrev.io/confrev/hack/cluster/image"
)

// ctrImport returns the arguments of containerd's ctr that import an archive.
func ctrImport(archive string) []string {
	return []string{"--namespace", kubeletNamespace, "images", "import", "--local", "--snapshotter", "native", archive}
}

// kubeletNamespace is where containerd has the kubelet's images and containers.
const kubeletNamespace = "k8s.io"

// containerd returns a command to the containerd of a node that runs.
func containerd(l layout, name string, args ...string) (command, error) {
	pid := livePid(l, name, nodeProcess)
	if pid == 0 {
		return command{}, fmt.Errorf("the real node of cluster %q does not run: use '%s node start --name %[1]s'", name, project.command)
	}
	ctr, err := l.binary("ctr")
	// The socket, as the node's first process sees it.
	socket := fmt.Sprintf("/proc/%d/root/run/containerd/containerd.sock", pid)
	return command{name: ctr, args: append([]string{"--address", socket}, args...)}, err
}

// killContainer ends a container at once, as the kernel does when memory runs out. id is as in the pod's status: containerd://…
func killContainer(ctx context.Context, l layout, name, id string) error {
	ctr, err := containerd(l, name, "--namespace", kubeletNamespace, "tasks", "kill", "--signal", "SIGKILL", strings.TrimPrefix(id, "containerd://"))
	if err != nil {
		return err
	}
	_, err = ctr.output(ctx)
	return err
}

// importImage imports an image into the node that runs: an archive, or a folder that is an OCI layout. The node keeps it when it is stopped.
// The names that the image has then go to out.
func importImage(ctx context.Context, l layout, name, path string, out io.Writer) error {
	ctr, err := containerd(l, name, ctrImport("-")...)
	if err != nil {
		return err
	}
	archive, err := image.Open(path)
	if err != nil {
		return fmt.Errorf("import %s: %w", path, err)
	}
	defer func() { _ = archive.Close() }()
	ctr.stdin = archive
	names, err := ctr.output(ctx)
	if err != nil {
		return fmt.Errorf("import %s: %w", path, err)
	}
	_, err = fmt.Fprintln(out, names)
	return err
}
