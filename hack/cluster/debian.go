package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// debianPackage is a package of Debian's that has what does not come from a Go module. It is unpacked into the cache, and not installed.
type debianPackage struct {
	name string
	// programs are their paths in the package.
	programs []string
}

var (
	// Pods need runc's support of seccomp, which takes a C library.
	runcPackage = debianPackage{"runc", []string{"usr/sbin/runc"}}
	// Prometheus' module is five times as large as Kubernetes' API server to build.
	prometheusPackage = debianPackage{"prometheus", []string{"usr/bin/prometheus", "usr/bin/promtool"}}
)

// programPath returns the path of a program that comes from a package of Debian's, or "" if it does not.
func programPath(ctx context.Context, l layout, name string) (string, error) {
	for _, pkg := range []debianPackage{runcPackage, prometheusPackage} {
		if slices.ContainsFunc(pkg.programs, func(path string) bool { return filepath.Base(path) == name }) {
			dir, err := pkg.dir(ctx, l, name)
			return filepath.Join(dir, name), err
		}
	}
	return "", nil
}

// dir returns the directory of a program: the machine's own, or else that of the package's.
func (p debianPackage) dir(ctx context.Context, l layout, program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return filepath.Dir(path), nil
	}
	dir := filepath.Join(l.cache, "bin", p.name+"-debian")
	if runnable(filepath.Join(dir, program)) {
		return dir, nil
	}
	unlock, err := lock(ctx, dir+".lock", "another run fetches "+p.name)
	if err != nil {
		return "", err
	}
	defer unlock()
	if runnable(filepath.Join(dir, program)) {
		return dir, nil
	}
	for _, tool := range []string{"apt-get", "dpkg"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("there is no %s, and no %s to fetch Debian's: install %s and put it on PATH", program, tool, p.name)
		}
	}
	return dir, step(ctx, "fetch "+p.name, func(ctx context.Context) error { return p.fetch(ctx, l, dir) })
}

func (p debianPackage) fetch(ctx context.Context, l layout, dir string) error {
	scratch, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".tmp-")
	if err != nil {
		return fmt.Errorf("fetch %s: %w", p.name, err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	apt := func(args ...string) error {
		return command{dir: scratch, log: filepath.Join(l.cache, "logs", "fetch-"+p.name+".log"), name: "apt-get", args: args}.run(ctx)
	}
	// As root, apt warns that its helper user cannot write here; that is fine.
	if err := apt("download", p.name); err != nil {
		// A new machine may have no package lists yet. They are fetched for this run only.
		lists := filepath.Join(scratch, "lists")
		own := []string{"-o", "Dir::State::Lists=" + lists, "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="}
		if err := os.MkdirAll(filepath.Join(lists, "partial"), 0o755); err != nil {
			return fmt.Errorf("fetch %s: %w", p.name, err)
		}
		if err := errors.Join(apt(append(own, "update")...), apt(append(own, "download", p.name)...)); err != nil {
			return err
		}
	}
	packages, err := filepath.Glob(filepath.Join(scratch, p.name+"_*.deb"))
	if err != nil || len(packages) != 1 {
		return errors.Join(fmt.Errorf("fetch %s: apt-get left %d packages", p.name, len(packages)), err)
	}
	return p.unpack(ctx, packages[0], scratch, dir)
}

func (p debianPackage) unpack(ctx context.Context, archive, scratch, dir string) error {
	if _, err := (command{name: "dpkg", args: []string{"-x", archive, filepath.Join(scratch, "root")}}).output(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("install %s: %w", p.name, err)
	}
	for _, path := range p.programs {
		if err := os.Rename(filepath.Join(scratch, "root", path), filepath.Join(dir, filepath.Base(path))); err != nil {
			return fmt.Errorf("install %s: %w", p.name, err)
		}
	}
	return nil
}
