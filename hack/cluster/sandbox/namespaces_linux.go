package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// Isolate makes a command the first process of mount and process namespaces of its own. Whatever it and its
// descendants mount is seen by them only and goes with the last of them, and they all end with it.
func Isolate(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNS | syscall.CLONE_NEWPID
}

// Bind shows a directory of the machine at another path.
type Bind struct{ From, To string }

// Enter makes this process, the first of its namespaces, see the machine as a node of its own: with empty /run and
// /var, so that the fixed paths of containerd, its shims and the kubelet are this cluster's, and the given directories.
func Enter(binds []Bind) error {
	const oPath = 0x200000 // O_PATH: not to read, only to mount from
	sources := make([]string, 0, len(binds))
	for _, b := range binds {
		// Opened first, since they may be below what is hidden next.
		fd, err := syscall.Open(b.From, oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", b.From, err)
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
		if err := os.MkdirAll(b.To, 0o755); err != nil {
			return err
		}
		if err := mountAll([]mountCall{{source: sources[i], target: b.To, flags: syscall.MS_BIND}}); err != nil {
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
