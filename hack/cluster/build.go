package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// ensure builds those of the named components that are not there yet, one 'go build' for each module.
func ensure(ctx context.Context, l layout, names ...string) error {
	var modules []module
	wanted := map[module][]component{}
	for _, name := range names {
		c, err := componentByName(name)
		if err != nil {
			return err
		}
		if !slices.Contains(modules, c.module) {
			modules = append(modules, c.module)
		}
		wanted[c.module] = append(wanted[c.module], c)
	}
	for _, m := range modules {
		if err := ensureModule(ctx, l, m, wanted[m]); err != nil {
			return err
		}
	}
	return nil
}

func ensureModule(ctx context.Context, l layout, m module, wanted []component) error {
	dir, err := l.binaries(m)
	if err != nil {
		return err
	}
	if len(missing(dir, wanted)) == 0 {
		return nil
	}
	// Two runs at once must not build twice: the second waits, then finds the binaries.
	unlock, err := lock(ctx, dir+".lock", "another run builds "+filepath.Base(dir))
	if err != nil {
		return err
	}
	defer unlock()
	todo := missing(dir, wanted)
	if len(todo) == 0 {
		return nil
	}
	return buildModule(ctx, l, m, dir, todo)
}

func missing(dir string, wanted []component) []component {
	var out []component
	for _, c := range wanted {
		if !runnable(filepath.Join(dir, c.name)) {
			out = append(out, c)
		}
	}
	return out
}

// buildModule builds into a directory next to the final one and renames, so that a binary is whole or absent.
func buildModule(ctx context.Context, l layout, m module, dir string, todo []component) error {
	if _, err := exec.LookPath("go"); err != nil {
		return errors.New("building needs the go command: install Go (the version in go.mod) and put it on PATH")
	}
	version, err := l.version(m)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".tmp-")
	if err != nil {
		return fmt.Errorf("build %s: %w", m.dir, err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()

	args := []string{"build", "-trimpath", "-ldflags", linkFlags(m, version), "-o", scratch + string(filepath.Separator)}
	names := make([]string, 0, len(todo))
	for _, c := range todo {
		args = append(args, c.pkg)
		names = append(names, c.name)
	}
	log := filepath.Join(l.cache, "logs", "build-"+filepath.Base(dir)+".log")
	what := fmt.Sprintf("build %s %s (%s)", m.dir, version, strings.Join(names, ", "))
	err = step(ctx, what, func(ctx context.Context) error {
		return command{
			dir: filepath.Join(l.modules, m.dir), log: log, env: []string{"CGO_ENABLED=0", "GOWORK=off", "GOFLAGS="},
			name: "go", args: args,
		}.run(ctx)
	})
	if err != nil {
		return err
	}
	return install(scratch, dir, todo)
}

// runnable reports whether there is a binary that could be run.
func runnable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o100 != 0 && info.Size() > 0
}

func install(scratch, dir string, built []component) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("install binaries: %w", err)
	}
	for _, c := range built {
		from := c.name
		if c.builtAs != "" {
			from = c.builtAs
		}
		if err := os.Rename(filepath.Join(scratch, from), filepath.Join(dir, c.name)); err != nil {
			return fmt.Errorf("install %s: %w", c.name, err)
		}
	}
	return nil
}
