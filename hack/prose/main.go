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

const (
	stylePage = "docs/style.md"
	// uncleanList names paths that are not checked yet, one on each line: a file, or a folder with a slash at its end.
	uncleanList = "hack/prose/unclean.txt"
)

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
	unclean, err := readLines(filepath.Join(root, uncleanList))
	if err != nil {
		return nil, err
	}
	paths, err := texts(root)
	if err != nil {
		return nil, err
	}
	var findings []string
	used := map[string]bool{}
	for _, path := range paths {
		found, err := rules.file(root, path)
		if err != nil {
			return nil, err
		}
		if entry := covering(unclean, path); entry != "" {
			used[entry] = used[entry] || len(found) > 0
			continue
		}
		findings = append(findings, found...)
	}
	for _, entry := range unclean {
		if !used[entry] {
			findings = append(findings, fmt.Sprintf("%s: %s is clean: remove it from the list", uncleanList, entry))
		}
	}
	return findings, nil
}

// covering returns the entry of the list that a path belongs to, or nothing.
func covering(list []string, path string) string {
	for _, entry := range list {
		if path == entry || strings.HasSuffix(entry, "/") && strings.HasPrefix(path, entry) {
			return entry
		}
	}
	return ""
}

// readLines returns the lines of a file that are neither empty nor comments, or none if there is no such file.
func readLines(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// notOurs are paths that others wrote, that are made from texts which are checked themselves, or that have the phrases as examples.
var notOurs = []string{".git", "bin", "dist", "testdata", "docs/reference", "hack/prose/prose_test.go"}

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
