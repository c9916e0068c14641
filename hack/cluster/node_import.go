package main

import (
	"context"
	"fmt"
	"io"

	"confrev.io/confrev/hack/cluster/image"
)

// ctrImport returns the arguments of containerd's ctr that import an archive for the kubelet's containers.
func ctrImport(archive string) []string {
	return []string{"--namespace", "k8s.io", "images", "import", "--local", "--snapshotter", "native", archive}
}

// importImage imports an image into the node that runs: an archive, or a folder that is an OCI layout. The node keeps it when it is stopped.
// The names that the image has then go to out.
func importImage(ctx context.Context, l layout, name, path string, out io.Writer) error {
	pid := livePid(l, name, nodeProcess)
	if pid == 0 {
		return fmt.Errorf("the real node of cluster %q does not run: use '%s node start --name %[1]s'", name, project.command)
	}
	ctr, err := l.binary("ctr")
	if err != nil {
		return err
	}
	archive, err := image.Open(path)
	if err != nil {
		return fmt.Errorf("import %s: %w", path, err)
	}
	defer func() { _ = archive.Close() }()
	// containerd's socket, as the node's first process sees it.
	socket := fmt.Sprintf("/proc/%d/root/run/containerd/containerd.sock", pid)
	names, err := command{name: ctr, args: append([]string{"--address", socket}, ctrImport("-")...), stdin: archive}.output(ctx)
	if err != nil {
		return fmt.Errorf("import %s: %w", path, err)
	}
	_, err = fmt.Fprintln(out, names)
	return err
}
