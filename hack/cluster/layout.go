package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
)

// layout knows where everything lives; all paths are absolute.
type layout struct {
	module  string // this module's source
	modules string // the modules from which binaries are built
	cache   string // binaries and build logs, of use to every source tree on this machine
	state   string // clusters; also KWOK's work directory
}

func newLayout() (layout, error) {
	wd, err := os.Getwd()
	if err != nil {
		return layout{}, fmt.Errorf("find the source tree: %w", err)
	}
	module, err := sourceRoot(wd)
	if err != nil {
		return layout{}, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return layout{}, fmt.Errorf("find a directory for binaries (set HOME or XDG_CACHE_HOME): %w", err)
	}
	state, err := stateDir(os.Getenv)
	if err != nil {
		return layout{}, err
	}
	return layout{
		module:  module,
		modules: filepath.Join(module, filepath.FromSlash(project.modules)),
		cache:   filepath.Join(cache, project.name),
		state:   filepath.Join(state, project.name),
	}, nil
}

// sourceRoot goes up from dir to the source of this module, which has what binaries are built from.
func sourceRoot(dir string) (string, error) {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "", errors.New("this program does not know its module: build it with the go command")
	}
	for at := dir; ; at = filepath.Dir(at) {
		gomod, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && strings.HasPrefix(string(gomod), "module "+build.Main.Path+"\n") {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is not inside the source of %s: use '%s'", dir, build.Main.Path, project.command)
		}
	}
}

// stateDir returns $XDG_STATE_HOME or its default. The specification lets programs ignore relative values.
func stateDir(getenv func(string) string) (string, error) {
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", errors.New("find a directory for clusters: set HOME or XDG_STATE_HOME to an absolute path")
	}
	return filepath.Join(home, ".local", "state"), nil
}

func (l layout) clusters() string           { return filepath.Join(l.state, "clusters") }
func (l layout) cluster(name string) string { return filepath.Join(l.clusters(), name) }
func (l layout) kubeconfig(name string) string {
	return filepath.Join(l.cluster(name), "kubeconfig.yaml")
}

// node returns the directory of the real node.
func (l layout) node(name string) string { return filepath.Join(l.cluster(name), "node") }
func (l layout) networkFile(name string) string {
	return filepath.Join(l.cluster(name), "network")
}
func (l layout) auditLog(name string) string { return l.log(name, "audit") }
func (l layout) log(name, process string) string {
	return filepath.Join(l.cluster(name), "logs", process+".log")
}
func (l layout) pid(name, process string) string {
	return filepath.Join(l.cluster(name), "pids", process+".pid")
}
func (l layout) kwokctlConfig(name string) string { return filepath.Join(l.cluster(name), "kwok.yaml") }

// prepared marks a cluster whose set-up once came to its end, and has the stages that it got.
func (l layout) prepared(name string) string { return filepath.Join(l.cluster(name), "prepared") }

// verbLog outlives the cluster's directory, which kwokctl removes when it fails.
func (l layout) verbLog(verb, name string) string {
	return filepath.Join(l.state, "logs", verb+"-"+name+".log")
}

func (l layout) exists(name string) bool {
	_, err := os.Stat(l.kwokctlConfig(name))
	return err == nil
}

// binary returns where a component's binary belongs, whether or not it is there.
func (l layout) binary(component string) (string, error) {
	c, err := componentByName(component)
	if err != nil {
		return "", err
	}
	dir, err := l.binaries(c.module)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, component), nil
}

// binaries returns the directory of a module's binaries. Its name has the version, and that of the module's own source, so
// that a new version is a new build.
func (l layout) binaries(module module) (string, error) {
	version, err := l.version(module)
	if err != nil {
		return "", err
	}
	source, err := l.sourceVersion(module)
	if err != nil {
		return "", err
	}
	return filepath.Join(l.cache, "bin", module.dir+"-"+version+source), nil
}

// sourceVersion distinguishes a module's source from any other, such as -6a09e667. Most modules have none, only a dependency.
func (l layout) sourceVersion(module module) (string, error) {
	dir := filepath.Join(l.modules, module.dir)
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		return "", err
	}
	hash := sha256.New()
	for _, file := range append(files, filepath.Join(dir, "go.mod"), filepath.Join(dir, "go.sum")) {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("find the version of %s: %w", module.dir, err)
		}
		_, _ = fmt.Fprintf(hash, "%s %d\n%s", filepath.Base(file), len(content), content)
	}
	return fmt.Sprintf("-%x", hash.Sum(nil)[:4]), nil
}

// version returns the version of the module's main dependency, such as v1.36.3.
func (l layout) version(module module) (string, error) {
	path := filepath.Join(l.modules, module.dir, "go.mod")
	gomod, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("find the version of %s: %w", module.dir, err)
	}
	version, err := requiredVersion(string(gomod), module.requires)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return version, nil
}

// requiredVersion finds the version at which a go.mod requires a module; replaces do not count.
func requiredVersion(gomod, module string) (string, error) {
	block := ""
	for line := range strings.Lines(gomod) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "//") {
			continue
		}
		switch {
		case len(fields) >= 2 && fields[1] == "(":
			block = fields[0]
			continue
		case fields[0] == ")":
			block = ""
			continue
		case block == "":
			block, fields = fields[0], fields[1:]
			if block == "require" && len(fields) >= 2 && fields[0] == module {
				return fields[1], nil
			}
			block = ""
			continue
		}
		if block == "require" && len(fields) >= 2 && fields[0] == module {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("no requirement of %s: add it with 'go get -tool' in that directory", module)
}

var nameFormat = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`)

// validateName keeps a cluster's name usable as a directory, a context of a kubeconfig and a flag's value.
func validateName(name string) error {
	if nameFormat.MatchString(name) {
		return nil
	}
	return fmt.Errorf("%q cannot name a cluster: use 1 to 40 lower-case letters, digits and inner hyphens", name)
}
