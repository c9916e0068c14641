package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pages writes the pages of a folder and returns them by name.
func pages(t *testing.T, folder string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	if err := write(folder, dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		found[entry.Name()] = string(text)
	}
	if len(found) < 10 {
		t.Errorf("only %d pages in %s", len(found), folder)
	}
	return found
}

func TestManualPagesHaveTheirSections(t *testing.T) {
	for name, page := range pages(t, "man") {
		wanted := []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "SEE ALSO"}
		if name != "kubectl-confrev.1" {
			wanted = append(wanted, "EXAMPLE")
		}
		for _, section := range wanted {
			if !strings.Contains(page, "\n.SH "+section+"\n") {
				t.Errorf("%s has no section %s", name, section)
			}
		}
	}
}

// A line of a help text that begins with a dot would be taken for a request, and not be shown.
func TestManualPagesHaveOnlyTheRequestsThatTheyMean(t *testing.T) {
	requests := []string{".TH", ".SH", ".PP", ".IP", ".nh", ".EX", ".EE"}
	for name, page := range pages(t, "man") {
		inExample := false
		for line := range strings.Lines(page) {
			request, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			if !strings.HasPrefix(request, ".") && !strings.HasPrefix(request, "'") {
				continue
			}
			if !slices.Contains(requests, request) || inExample != (request == ".EE") {
				t.Errorf("%s: %q is not a request of manual pages, or not one for here", name, line)
			}
			inExample = request == ".EX"
		}
		if inExample {
			t.Errorf("%s: an example does not end", name)
		}
	}
}

// Pages come out the same on every machine and on every day, and say once what all commands have.
func TestPages(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"reference", "man"} {
		again := pages(t, folder)
		for name, page := range pages(t, folder) {
			if name == schemaFile {
				continue
			}
			isOptions := strings.Contains(name, "options")
			switch {
			case again[name] != page:
				t.Errorf("%s is not the same when it is made again", name)
			case strings.Contains(page, home+"/.kube"), strings.Contains(page, "0001"), strings.Contains(page, "Auto generated"):
				t.Errorf("%s tells where or when it was made:\n%s", name, page)
			case strings.Contains(page, "certificate-authority") != isOptions:
				t.Errorf("%s: flags of connection belong on one page:\n%s", name, page)
			case !isOptions && !strings.Contains(strings.ReplaceAll(page, "_", "-"), "kubectl-confrev-options"):
				t.Errorf("%s does not say where the flags of connection are:\n%s", name, page)
			}
		}
	}
}

func TestIndexHasEveryPage(t *testing.T) {
	all := pages(t, "reference")
	for name := range all {
		if name != "README.md" && name != "kubectl_confrev.md" && !strings.Contains(all["README.md"], "]("+name+")") {
			t.Errorf("README.md does not list %s", name)
		}
	}
}

// What was there before, such as the page of a command that has another name now, goes.
func TestOldPagesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "kubectl-confrev-old.1")
	if err := os.WriteFile(old, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write("man", dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}
