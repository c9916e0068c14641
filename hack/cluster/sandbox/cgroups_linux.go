package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// MakeCgroup makes the cgroup below which the kubelet puts the pods, for every controller.
func MakeCgroup(cgroup string) error {
	if _, err := os.Stat(filepath.Join(Cgroups, "cgroup.controllers")); err == nil {
		return makeDir(filepath.Join(Cgroups, cgroup))
	}
	controllers, err := os.ReadDir(Cgroups)
	if err != nil {
		return fmt.Errorf("list cgroups: %w", err)
	}
	for _, controller := range controllers {
		// Where controllers share a hierarchy, as cpu and cpuacct do, each has a link to it.
		if err := makeDir(filepath.Join(Cgroups, controller.Name(), cgroup)); err != nil {
			return err
		}
	}
	// Alone of all, a cpuset takes no process before it was told where that may run: as its parent may.
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		content, err := os.ReadFile(filepath.Join(Cgroups, "cpuset", file))
		if err == nil {
			err = os.WriteFile(filepath.Join(Cgroups, "cpuset", cgroup, file), content, 0o644)
		}
		if err != nil {
			return fmt.Errorf("make cgroup %s: %w", cgroup, err)
		}
	}
	return nil
}

func makeDir(path string) error {
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make a cgroup: %w", err)
	}
	return nil
}

// RemoveCgroups removes a cgroup and those in it, of every controller. Their processes have ended, except for a moment the
// kernel may still count them: then it is not done yet.
func RemoveCgroups(cgroup string) (done bool, err error) {
	tops, err := filepath.Glob(filepath.Join(Cgroups, "*", cgroup))
	if err != nil {
		return false, err
	}
	done = true
	for _, top := range append(tops, filepath.Join(Cgroups, cgroup)) {
		err := removeTree(top)
		if err != nil && !errors.Is(err, syscall.EBUSY) {
			return false, err
		}
		done = done && err == nil
	}
	return done, nil
}

// removeTree removes directories only, the innermost first: the files of a cgroup go with it.
func removeTree(top string) error {
	entries, err := os.ReadDir(top)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(top, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := syscall.Rmdir(top); err != nil && !errors.Is(err, syscall.ENOENT) {
		return &fs.PathError{Op: "rmdir", Path: top, Err: err}
	}
	return nil
}
