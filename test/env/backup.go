package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Backup is what etcd had at one moment: all objects of a cluster, with their uids and resourceVersions.
type Backup struct{ dir string }

// controlPlane are the processes of a cluster that know what etcd has, from those that ask the others to etcd itself.
var controlPlane = []string{"kwok-controller", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"}

// Backup copies what etcd has. The control plane is down meanwhile.
func (c *Cluster) Backup(ctx context.Context, progress *os.File) (Backup, error) {
	dir, err := os.MkdirTemp(c.Dir, "backup-")
	if err != nil {
		return Backup{}, err
	}
	backup := Backup{filepath.Join(dir, "etcd")}
	return backup, c.withoutControlPlane(ctx, progress, func() error { return os.CopyFS(backup.dir, os.DirFS(c.etcd())) })
}

// Restore replaces all that a cluster has by what another one had, or it itself. As everyone must who restores etcd, it starts all of the
// control plane again, since etcd's revisions go back. The kubeconfig stays valid; tokens of another cluster's accounts do not.
func (c *Cluster) Restore(ctx context.Context, backup Backup, progress *os.File) error {
	return c.withoutControlPlane(ctx, progress, func() error {
		if err := os.RemoveAll(c.etcd()); err != nil {
			return err
		}
		return os.CopyFS(c.etcd(), os.DirFS(backup.dir))
	})
}

func (c *Cluster) etcd() string { return filepath.Join(filepath.Dir(c.Kubeconfig), "etcd") }

// withoutControlPlane stops the control plane, and starts it again once do has returned.
func (c *Cluster) withoutControlPlane(ctx context.Context, progress *os.File, do func() error) error {
	for _, process := range controlPlane {
		pid, err := c.pid(process)
		if err != nil {
			return err
		}
		if err := c.KillProcess(process); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop %s: %w", process, err)
		}
		if err := waitGone(ctx, pid); err != nil {
			return fmt.Errorf("wait until %s has ended: %w", process, err)
		}
	}
	return errors.Join(do(), c.Revive(ctx, progress))
}

// waitGone waits until a process is gone, or only waits for its parent.
func waitGone(ctx context.Context, pid int) error {
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		// Without an error, it is there.
		process, gone := procfs.NewProc(pid)
		if gone != nil {
			return true, nil //nolint:nilerr // That is what is waited for.
		}
		stat, gone := process.Stat()
		return gone != nil || stat.State == "Z" || stat.State == "X", nil //nolint:nilerr // As above.
	})
}
