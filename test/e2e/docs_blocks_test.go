//go:build e2e

package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"confrev.io/confrev/test/env"
)

// block is a block of code of a page.
type block struct {
	// The page's path from the root of the source, the heading that the block is under, and the number of its first line.
	page, section string
	line          int
	// What it is in: sh, console, yaml; "" for a text such as an output. Its indentation is removed.
	language, text string
}

func (b block) String() string { return fmt.Sprintf("%s:%d (%s)", b.page, b.line, b.section) }

// pagesWithCommands returns the pages whose blocks must be accounted for: all that a user reads, but not what is generated from the plugin
// itself, whose examples TestPluginHelp and its like run.
func pagesWithCommands(t *testing.T) (pages []string) {
	t.Helper()
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "RELEASING.md", "charts", "deploy", "docs"} {
		err := filepath.WalkDir(filepath.Join(env.Root(), name), func(path string, entry fs.DirEntry, err error) error {
			if entry != nil && (entry.Name() == "node_modules" || path == filepath.Join(env.Root(), "docs", "reference")) {
				return fs.SkipDir
			}
			if page, relErr := filepath.Rel(env.Root(), path); err == nil && strings.HasSuffix(path, ".md") {
				pages, err = append(pages, page), relErr
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return pages
}

// blocksOf returns the blocks of a page, in their order.
func blocksOf(t *testing.T, page string) (blocks []block) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(env.Root(), page))
	if err != nil {
		t.Fatal(err)
	}
	section, open, indent := "", false, ""
	for i, line := range strings.Split(string(text), "\n") {
		before, language, fenced := strings.Cut(line, "```")
		switch fenced = fenced && strings.TrimSpace(before) == ""; {
		case fenced && open:
			open = false
		case fenced:
			open, indent = true, before
			blocks = append(blocks, block{page: page, section: section, line: i + 2, language: language})
		case open:
			blocks[len(blocks)-1].text += strings.TrimPrefix(line, indent) + "\n"
		case strings.HasPrefix(line, "#"):
			section = strings.TrimLeft(line, "# ")
		}
	}
	if open {
		t.Errorf("%s: a block does not end", page)
	}
	return blocks
}

// The tests that run the blocks, and the languages that they know. The first runs all that have no test of their own.
const (
	runsAll      = "TestCommandsOfTheDocs"
	runsCLI      = "TestCLIPageShowsRealOutput"
	runsGuide    = "TestCommandsOfTheGuideToSafeChanges"
	runsTutorial = "TestCommandsOfTheTutorial"
	runsMetrics  = "TestMetricsAreForThoseWhoMayGetThem"
)

var runs = map[string][]string{
	runsAll: {"sh", "console", "yaml", ""}, runsCLI: {"console"}, runsGuide: {"sh"}, runsTutorial: {"sh", "console"}, runsMetrics: {"yaml"},
}

// runBy returns the name of the test that runs a block. Each of these asks runsOf what that is, so no block is only said to be run.
func (b block) runBy() string {
	switch {
	case b.page == "docs/cli.md" && b.language == "console":
		return runsCLI
	case b.page == "docs/guide/safe-changes.md" && b.language == "sh":
		return runsGuide
	case b.page == "docs/metrics.md" && b.language == "yaml":
		return runsMetrics
	// It has a cluster with confrev and a namespace, which the reader gets in the first step, and removes at the end.
	case b.page == "docs/tutorial.md" && !strings.HasPrefix(b.section, "Step 1:") && !strings.Contains(b.text, "delete namespace"):
		return runsTutorial
	}
	return runsAll
}

// runsOf returns the blocks of a page that the test runs.
func runsOf(t *testing.T, page string) []block {
	t.Helper()
	return slices.DeleteFunc(blocksOf(t, page), func(b block) bool { return b.runBy() != t.Name() })
}

// exception is what begins so on a page.
type exception struct{ page, begins, why string }

// notRun are the blocks, and the lines of sh, that cannot be run here, by how they begin.
var notRun = []exception{
	{"RELEASING.md", "git ", "signs with a maintainer's key, and pushes"},
	{"docs/cli.md", "kubectl krew install", "krew is not built here, and there is no such address; TestKrewManifest (hack/release) installs as krew does"},
	{"docs/cli.md", "brew install", "there is no Homebrew and no tap; TestHomebrewFormula (hack/release) reads the formula"},
	{"docs/install.md", "crane push", "crane is not built here, and there is no registry; TestImages (hack/release) reads the layout"},
	{"docs/install.md", "skopeo copy", "as with crane"},
	{"docs/guide/flux.md", "flux suspend", "Flux's controllers and CRDs are not run here, only its engine"},
	{"docs/guide/render.md", "kpt fn eval", "needs a container engine; TestRenderAsKustomizeFunction runs what the image runs"},
	{"docs/guide/render.md", "kubectl kustomize", "needs a container engine; TestRenderAsKustomizeFunction has a stand-in"},
	{"docs/troubleshooting/permissions.md", "helm upgrade confrev charts/confrev --namespace team-a", "a cluster has one release; TestNamespacesComeAndGo"},
	{"docs/troubleshooting/pods.md", "Error creating: pods", "needs a broken policy; TestValidatingPolicyAloneRefusesEveryForm"},
	{"docs/troubleshooting/pods.md", "$ kubectl events --for replicaset/web", "before Kubernetes 1.36 only; TestPodWebhook"},
	{"docs/troubleshooting/pods.md", "kubectl get mutatingwebhookconfiguration confrev-resolve-pins", "as above"},
	{"docs/troubleshooting/pods.md", "kubectl delete mutatingwebhookconfiguration confrev-resolve-pins", "as above"},
	{"docs/troubleshooting/revisions.md", "kubectl delete configmap app-", "the guard, which other tests need, refuses it"},
	{"docs/design/architecture.md", "flowchart", "a picture, which the documentation site draws"},
}

// isNotRun reports whether a text of a page is in that list, and where.
func isNotRun(page, text string) (index int, listed bool) {
	index = slices.IndexFunc(notRun, func(n exception) bool { return n.page == page && strings.HasPrefix(strings.TrimSpace(text), n.begins) })
	return index, index >= 0
}

// commands returns what is run of a block, and what is not: of sh line by line, each with those that continue it, and of others all or
// nothing.
func (b block) commands() (run, left []string) {
	lines := []string{b.text}
	if b.language == "sh" {
		lines = strings.SplitAfter(strings.ReplaceAll(strings.TrimSuffix(b.text, "\n"), "\\\n", "\\\x00"), "\n")
	}
	for _, line := range lines {
		line = strings.ReplaceAll(line, "\x00", "\n")
		if _, listed := isNotRun(b.page, line); listed {
			left = append(left, line)
		} else {
			run = append(run, line)
		}
	}
	return run, left
}

// Every block of the docs is run or applied by a test, or it is in the list of those that cannot be.
func TestEveryBlockOfTheDocsIsAccountedFor(t *testing.T) {
	tests := allTests(t)
	blocks, lines, used := map[string]int{}, map[string]int{}, map[int]bool{}
	for _, page := range pagesWithCommands(t) {
		for _, b := range blocksOf(t, page) {
			by := b.runBy()
			run, left := b.commands()
			switch {
			case len(run) == 0:
				by = "none"
			case !tests[by]:
				t.Errorf("%s is run by %s, which does not exist", b, by)
			case !slices.Contains(runs[by], b.language):
				t.Errorf("%s: %s does not run %q. Teach it to, or say in notRun why it cannot be run", b, by, b.language)
			}
			blocks[by+" "+b.language]++
			if b.language == "sh" {
				lines["run"] += countCommands(run)
				lines["not run"] += countCommands(left)
			}
			for _, text := range left {
				index, _ := isNotRun(page, text)
				used[index] = true
			}
		}
	}
	for i, n := range notRun {
		for _, name := range namesTest.FindAllString(n.why, -1) {
			if !tests[name] {
				t.Errorf("notRun: %q of %s says %s, which does not exist", n.begins, n.page, name)
			}
		}
		if !used[i] {
			t.Errorf("%s has nothing that begins with %q: remove it from notRun", n.page, n.begins)
		}
	}
	if blocks[runsAll+" sh"] < 80 || blocks[runsAll+" yaml"] < 20 {
		t.Errorf("found only %v: the test reads the pages wrongly", blocks)
	}
	t.Logf("blocks by test and language: %v; lines of sh: %v", blocks, lines)
}

// countCommands leaves out empty lines and comments.
func countCommands(lines []string) (count int) {
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			count++
		}
	}
	return count
}

// namesTest finds the tests that notRun refers to.
var namesTest = regexp.MustCompile(`\bTest[A-Z]\w+`)

// allTests returns the names of the tests that run what the docs show: those of this package and of hack/release.
func allTests(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(env.Root(), "hack", "release", "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, more...)
	tests := map[string]bool{}
	for _, file := range files {
		names, err := testsOf(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			tests[name] = true
		}
	}
	return tests
}
