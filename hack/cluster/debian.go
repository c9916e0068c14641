package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"

	"confrev.io/confrev/hack/cluster/debian"
)

var (
	// Pods need runc's support of seccomp, which takes a C library.
	runcPackage = debian.Package{Name: "runc", Programs: []string{"usr/sbin/runc"}}
	// kube-proxy runs it.
	nftPackage = debian.Package{Name: "nftables", Programs: []string{"usr/sbin/nft"}, Libraries: []string{
		"libnftables1", "libnftnl11", "libmnl0", "libjansson4", "libgmp10", "libxtables12", "libedit2", "libbsd0", "libmd0", "libtinfo6",
	}}
	// Prometheus' module is five times as large as Kubernetes' API server to build.
	prometheusPackage = debian.Package{Name: "prometheus", Programs: []string{"usr/bin/prometheus", "usr/bin/promtool"}}
)

// programPath returns the path of a program that comes from a package of Debian's, or "" if it does not.
func programPath(ctx context.Context, l layout, name string) (string, error) {
	for _, pkg := range []debian.Package{runcPackage, nftPackage, prometheusPackage} {
		if slices.ContainsFunc(pkg.Programs, func(path string) bool { return filepath.Base(path) == name }) {
			dir, err := programDir(ctx, l, pkg, name)
			return filepath.Join(dir, name), err
		}
	}
	return "", nil
}

// programDir returns the directory of a program: the machine's own, or else that of the package's.
func programDir(ctx context.Context, l layout, p debian.Package, program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return filepath.Dir(path), nil
	}
	dir := filepath.Join(l.cache, "bin", p.Name+"-debian")
	if runnable(filepath.Join(dir, program)) {
		return dir, nil
	}
	unlock, err := lock(ctx, dir+".lock", "another run fetches "+p.Name)
	if err != nil {
		return "", err
	}
	defer unlock()
	if runnable(filepath.Join(dir, program)) {
		return dir, nil
	}
	for _, tool := range []string{"apt-get", "dpkg"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("there is no %s, and no %s to fetch Debian's: install %s and put it on PATH", program, tool, p.Name)
		}
	}
	return dir, step(ctx, "fetch "+p.Name, func(ctx context.Context) error {
		return p.Fetch(dir, func(at, name string, args ...string) error {
			return command{dir: at, log: filepath.Join(l.cache, "logs", "fetch-"+p.Name+".log"), name: name, args: args}.run(ctx)
		})
	})
}
