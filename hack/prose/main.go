// Command prose looks for phrases that docs/style.md tells writers to avoid: in the docs, the chart, the Makefile, and Go's comments and
// string literals. The tables of that page are its rules.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const stylePage = "docs/style.md"

func main() {
	findings, err := check(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "hack/prose:", err)
		os.Exit(2)
	}
	for _, finding := range findings {
		fmt.Println(finding)
	}
	if len(findings) > 0 {
		fmt.Fprintf(os.Stderr, "hack/prose: %d places; see %s\n", len(findings), stylePage)
		os.Exit(1)
	}
}

// check returns what is wrong in the tree below root, a line for each place.
func check(root string) ([]string, error) {
	page, err := os.ReadFile(filepath.Join(root, stylePage))
	if err != nil {
		return nil, err
	}
	rules, err := parseRules(string(page))
	if err != nil {
		return nil, err
	}
	paths, err := texts(root)
	if err != nil {
		return nil, err
	}
	var findings []string
	for _, path := range paths {
		found, err := rules.file(root, path)
		if err != nil {
			return nil, err
		}
		findings = append(findings, found...)
	}
	return findings, nil
}

// notOurs are paths that others wrote, that are made from texts which are checked themselves, or that have the phrases as examples.
var notOurs = []string{".git", "bin", "dist", "node_modules", "testdata", "docs/reference", "hack/prose/prose_test.go"}

// texts lists the files to check, relative to root.
func texts(root string) ([]string, error) {
	var paths []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		switch {
		case slices.Contains(notOurs, entry.Name()) || slices.Contains(notOurs, relative):
			if entry.IsDir() {
				return filepath.SkipDir
			}
		case !entry.IsDir() && readable(relative):
			paths = append(paths, relative)
		}
		return nil
	})
	return paths, err
}

func readable(path string) bool {
	switch filepath.Ext(path) {
	case ".go", ".md":
		return true
	}
	return path == "Makefile" || strings.HasPrefix(path, "charts/") || strings.HasPrefix(path, "deploy/")
}
