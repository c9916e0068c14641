package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// runcDir returns the directory of a runc: the machine's own, or else Debian's, unpacked into the cache and not installed.
// It does not come from a Go module: pods need its support of seccomp, which takes a C library.
func runcDir(ctx context.Context, l layout) (string, error) {
	if path, err := exec.LookPath("runc"); err == nil {
		return filepath.Dir(path), nil
	}
	dir := filepath.Join(l.cache, "bin", "runc-debian")
	if runnable(filepath.Join(dir, "runc")) {
		return dir, nil
	}
	unlock, err := lock(ctx, dir+".lock", "another run fetches runc")
	if err != nil {
		return "", err
	}
	defer unlock()
	if runnable(filepath.Join(dir, "runc")) {
		return dir, nil
	}
	for _, tool := range []string{"apt-get", "dpkg"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("there is no runc, and no %s to fetch Debian's: install runc and put it on PATH", tool)
		}
	}
	return dir, step(ctx, "fetch runc", func(ctx context.Context) error { return fetchRunc(ctx, l, dir) })
}

func fetchRunc(ctx context.Context, l layout, dir string) error {
	scratch, err := os.MkdirTemp(filepath.Dir(dir), "runc-debian.tmp-")
	if err != nil {
		return fmt.Errorf("fetch runc: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	apt := func(args ...string) error {
		return command{dir: scratch, log: filepath.Join(l.cache, "logs", "fetch-runc.log"), name: "apt-get", args: args}.run(ctx)
	}
	// As root, apt warns that its helper user cannot write here; that is fine.
	if err := apt("download", "runc"); err != nil {
		// A new machine may have no package lists yet. They are fetched for this run only.
		lists := filepath.Join(scratch, "lists")
		own := []string{"-o", "Dir::State::Lists=" + lists, "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="}
		if err := os.MkdirAll(filepath.Join(lists, "partial"), 0o755); err != nil {
			return fmt.Errorf("fetch runc: %w", err)
		}
		if err := errors.Join(apt(append(own, "update")...), apt(append(own, "download", "runc")...)); err != nil {
			return err
		}
	}
	packages, err := filepath.Glob(filepath.Join(scratch, "runc_*.deb"))
	if err != nil || len(packages) != 1 {
		return errors.Join(fmt.Errorf("fetch runc: apt-get left %d packages", len(packages)), err)
	}
	return unpackRunc(ctx, packages[0], scratch, dir)
}

func unpackRunc(ctx context.Context, archive, scratch, dir string) error {
	if _, err := (command{name: "dpkg", args: []string{"-x", archive, filepath.Join(scratch, "root")}}).output(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("install runc: %w", err)
	}
	if err := os.Rename(filepath.Join(scratch, "root", "usr", "sbin", "runc"), filepath.Join(dir, "runc")); err != nil {
		return fmt.Errorf("install runc: %w", err)
	}
	return nil
}
