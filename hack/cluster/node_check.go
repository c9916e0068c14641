package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"confrev.io/confrev/hack/cluster/sandbox"
)

// checkNode returns why this machine cannot run a real node. It believes only a container that it has run. Of a machine
// that can, it gives the tools that it tried.
func checkNode(ctx context.Context, l layout) (nodeTools, error) {
	tools, err := tryNode(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("a real node cannot run here: %w", err)
	}
	return tools, nil
}

func tryNode(ctx context.Context, l layout) (nodeTools, error) {
	if err := allowsNode(); err != nil {
		return nil, err
	}
	runc, err := programDir(ctx, l, runcPackage, "runc")
	if err != nil {
		return nil, err
	}
	nft, err := programDir(ctx, l, nftPackage, "nft")
	if err != nil {
		return nil, err
	}
	return nodeTools{"runc": runc, "nft": nft}, tryContainer(ctx, l, runc, nft)
}

func allowsNode() error {
	if runtime.GOOS != "linux" {
		return errors.New("it needs Linux")
	}
	if os.Geteuid() != 0 {
		return errors.New("it needs root")
	}
	for _, file := range []string{"cgroup.controllers", "memory"} {
		if _, err := os.Stat(filepath.Join(sandbox.Cgroups, file)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("no cgroups are mounted at %s", sandbox.Cgroups)
}

// tryContainer makes a network and runs one small container the way that a node would, in namespaces of its own.
func tryContainer(ctx context.Context, l layout, runc, nft string) error {
	// Not where temporary files are: nothing may be run from there on some machines.
	if err := os.MkdirAll(l.cache, 0o755); err != nil {
		return fmt.Errorf("try a container: %w", err)
	}
	dir, err := os.MkdirTemp(l.cache, "trial-")
	if err != nil {
		return fmt.Errorf("try a container: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cgroup := cgroupOf(filepath.Base(dir))
	if err := writeBundle(ctx, l, dir, cgroup); err != nil {
		return fmt.Errorf("try a container: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("try a container: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, "node", "trial", dir, runc, nft)
	sandbox.Isolate(cmd)
	out, err := cmd.CombinedOutput()
	if text := strings.TrimPrefix(lastLine(string(out)), "cluster: "); err != nil && text != "" {
		err = errors.New(text)
	}
	if err != nil {
		err = fmt.Errorf("it cannot have a network and containers: %w", err)
	}
	return errors.Join(err, removeCgroups(ctx, cgroup))
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// writeBundle writes what runc needs for a container that ends at once.
func writeBundle(ctx context.Context, l layout, dir, cgroup string) error {
	if err := os.Mkdir(filepath.Join(dir, "rootfs"), 0o755); err != nil {
		return err
	}
	log := filepath.Join(l.cache, "logs", "build-probe.log")
	if err := buildProbe(ctx, l, log, filepath.Join(dir, "rootfs", "probe")); err != nil {
		return err
	}
	spec, err := json.Marshal(map[string]any{
		"ociVersion": "1.0.2",
		"process":    map[string]any{"cwd": "/", "args": []string{"/probe", "exit"}, "user": map[string]any{"uid": 0, "gid": 0}},
		"root":       map[string]any{"path": "rootfs"},
		"mounts":     []map[string]any{{"destination": "/proc", "type": "proc", "source": "proc"}},
		"linux": map[string]any{
			"cgroupsPath": cgroup,
			"namespaces":  []map[string]any{{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}},
		},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), spec, 0o600)
}
