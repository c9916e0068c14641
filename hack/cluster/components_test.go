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

// alike are modules whose tools compile the same packages, and the dependencies in which they differ nevertheless.
var alike = map[string]struct {
	modules []module
	differ  []string
}{
	"clients of Kubernetes 1.37": {
		modules: []module{moduleHelm, moduleHelm3, moduleFluxSSA},
		differ:  []string{"github.com/fluxcd/cli-utils"}, // Helm decides with it what is ready, so it is the one that Helm requires.
	},
	"clients of Kubernetes 1.36": {modules: []module{moduleKwok, moduleGitopsEngine, moduleCertManager}},
}

// A package is compiled once for all tools if it, and all that it imports, have the same version in each. When they differed, a quarter
// of all source that is compiled for the tools was a package at yet another patch version.
func TestToolsCompileOnceWhatTheyShare(t *testing.T) {
	l, err := newLayout()
	checkError(t, err, "")
	for name, group := range alike {
		t.Run(name, func(t *testing.T) {
			packages := map[string]map[string]dependency{}
			for _, m := range group.modules {
				for pkg, d := range compiled(t, l, m) {
					if packages[pkg] == nil {
						packages[pkg] = map[string]dependency{}
					}
					packages[pkg][m.dir] = d
				}
			}
			// The version of each dependency that they share, by the directories of the modules that compile it.
			shared := map[string]map[string]string{}
			for _, uses := range packages {
				if len(uses) < 2 {
					continue
				}
				for dir, d := range uses {
					if shared[d.module] == nil {
						shared[d.module] = map[string]string{}
					}
					shared[d.module][dir] = d.version
				}
			}
			if len(shared) == 0 {
				t.Fatal("they share nothing")
			}
			for _, module := range slices.Sorted(maps.Keys(shared)) {
				differs := len(slices.Compact(slices.Sorted(maps.Values(shared[module])))) > 1
				if allowed := slices.Contains(group.differ, module); differs && !allowed {
					t.Errorf("%s: %v: run 'go get %s@VERSION && go mod tidy' with the newest of these, where hack/modules has another", module, shared[module], module)
				} else if allowed && !differs {
					t.Errorf("%s: no longer differs: remove it from alike", module)
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
