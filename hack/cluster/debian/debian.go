// Package debian unpacks programs of Debian's packages, without installing them.
package debian

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Package is a package that has what does not come from a Go module.
type Package struct {
	Name string
	// Programs are their paths in the package.
	Programs []string
	// Libraries are the packages of the libraries that they need, other than the C library.
	Libraries []string
}

// Fetch unpacks the programs and libraries to a folder. It runs apt-get and dpkg, in a given folder, by run.
func (p Package) Fetch(to string, run func(dir, name string, args ...string) error) error {
	scratch, err := os.MkdirTemp(filepath.Dir(to), filepath.Base(to)+".tmp-")
	if err != nil {
		return fmt.Errorf("fetch %s: %w", p.Name, err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	apt := func(args ...string) error { return run(scratch, "apt-get", args...) }
	download := append([]string{"download", p.Name}, p.Libraries...)
	// As root, apt warns that its helper user cannot write here; that is fine.
	if err := apt(download...); err != nil {
		// A new machine may have no package lists yet. They are fetched for this run only.
		lists := filepath.Join(scratch, "lists")
		own := []string{"-o", "Dir::State::Lists=" + lists, "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="}
		if err := os.MkdirAll(filepath.Join(lists, "partial"), 0o755); err != nil {
			return fmt.Errorf("fetch %s: %w", p.Name, err)
		}
		if err := errors.Join(apt(append(own, "update")...), apt(append(own, download...)...)); err != nil {
			return err
		}
	}
	packages, err := filepath.Glob(filepath.Join(scratch, "*.deb"))
	if err != nil || len(packages) != 1+len(p.Libraries) {
		return errors.Join(fmt.Errorf("fetch %s: apt-get left %d packages", p.Name, len(packages)), err)
	}
	root := filepath.Join(scratch, "root")
	for _, archive := range packages {
		if err := run(scratch, "dpkg", "-x", archive, root); err != nil {
			return err
		}
	}
	return p.install(root, to)
}

// install moves what is needed from the unpacked packages to a folder.
func (p Package) install(root, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return fmt.Errorf("install %s: %w", p.Name, err)
	}
	var files []string
	for _, folder := range []string{"lib", "usr/lib"} {
		libraries, err := filepath.Glob(filepath.Join(root, folder, "*", "*.so.*"))
		if err != nil {
			return fmt.Errorf("install %s: %w", p.Name, err)
		}
		files = append(files, libraries...)
	}
	// The programs last: when they are there, all is.
	for _, path := range p.Programs {
		files = append(files, filepath.Join(root, path))
	}
	for _, file := range files {
		if err := os.Rename(file, filepath.Join(to, filepath.Base(file))); err != nil {
			return fmt.Errorf("install %s: %w", p.Name, err)
		}
	}
	return nil
}
