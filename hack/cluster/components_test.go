package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// alike are modules whose tools compile the same packages, and the dependencies in which they may still differ.
var alike = map[string]struct {
	modules []module
	differ  []string
}{
	"clients of Kubernetes 1.37": {modules: []module{moduleHelm, moduleHelm3, moduleFluxSSA}, differ: []string{
		"github.com/fluxcd/cli-utils", // Helm has tests of its own with an older one.
	}},
	"clients of Kubernetes 1.36": {modules: []module{moduleKwok, moduleGitopsEngine, moduleCertManager}},
}

// A package is compiled once for all tools if it, and all that it imports, have the same version in each: on a new machine, this
// saves a quarter of the time that building them takes.
func TestToolsCompileOnceWhatTheyShare(t *testing.T) {
	l, err := newLayout()
	checkError(t, err, "")
	for name, group := range alike {
		t.Run(name, func(t *testing.T) {
			versions, users := map[string]map[string][]string{}, map[string]int{}
			var all []map[string]dependency
			for _, m := range group.modules {
				deps := compiled(t, l, m)
				all = append(all, deps)
				for pkg := range deps {
					users[pkg]++
				}
			}
			shared := 0
			for i, m := range group.modules {
				for pkg, d := range all[i] {
					if users[pkg] < 2 {
						continue
					}
					shared++
					if versions[d.module] == nil {
						versions[d.module] = map[string][]string{}
					}
					if !slices.Contains(versions[d.module][d.version], m.dir) {
						versions[d.module][d.version] = append(versions[d.module][d.version], m.dir)
					}
				}
			}
			if shared == 0 {
				t.Fatal("they share nothing")
			}
			for _, module := range slices.Sorted(maps.Keys(versions)) {
				if len(versions[module]) > 1 && !slices.Contains(group.differ, module) {
					t.Errorf("%s: versions %v: run 'go get %s@NEWEST && go mod tidy' in hack/modules of the others", module, versions[module], module)
				}
			}
		})
	}
}

// dependency is a module at a version.
type dependency struct{ module, version string }

// compiled returns the packages of other modules that a module's tools consist of.
func compiled(t *testing.T, l layout, m module) map[string]dependency {
	t.Helper()
	const format = `{{with .Module}}{{$.ImportPath}} {{.Path}} {{if .Replace}}{{.Replace.Version}}{{else}}{{.Version}}{{end}}{{end}}`
	args := []string{"list", "-deps", "-f", format}
	for _, c := range components {
		if c.module == m {
			args = append(args, c.pkg)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = filepath.Join(l.modules, m.dir)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the packages of %s: %v", m.dir, err)
	}
	deps := map[string]dependency{}
	for line := range strings.Lines(string(out)) {
		// The module's own packages have no version.
		if fields := strings.Fields(line); len(fields) == 3 {
			deps[fields[0]] = dependency{fields[1], fields[2]}
		}
	}
	return deps
}
