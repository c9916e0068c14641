package docs_test

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Files and packages are no longer than CONTRIBUTING.md says. The linter looks at functions (funlen in .golangci.yml).
func TestFilesAndPackagesAreShort(t *testing.T) {
	limits := regexp.MustCompile(`at most (\d+) lines; files have at most (\d+) lines, packages at most ([\d,]+)`).
		FindStringSubmatch(read(t, "CONTRIBUTING.md"))
	if limits == nil {
		t.Fatal("CONTRIBUTING.md does not say how long functions, files and packages may be: the test reads it wrongly")
	}
	if linter := read(t, ".golangci.yml"); !strings.Contains(linter, "funlen:\n      lines: "+limits[1]+"\n") {
		t.Errorf("the linter's limit for functions is not %s lines", limits[1])
	}
	packages := map[string]int{}
	for _, folder := range []string{"cmd", "hack", "internal", "test"} {
		for _, path := range files(t, folder, ".go") {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			lines := strings.Count(read(t, path), "\n")
			packages[filepath.Dir(path)] += lines
			within(t, path, lines, limits[2])
		}
	}
	if len(packages) < 30 {
		t.Fatalf("found only %v: the test looks in the wrong place", packages)
	}
	for folder, lines := range packages {
		within(t, folder, lines, limits[3])
	}
}

func within(t *testing.T, what string, lines int, limit string) {
	t.Helper()
	most, err := strconv.Atoi(strings.ReplaceAll(limit, ",", ""))
	if err != nil {
		t.Fatal(err)
	}
	if lines > most {
		t.Errorf("%s has %d lines, at most %d are allowed: split it by what it is for", what, lines, most)
	}
}
