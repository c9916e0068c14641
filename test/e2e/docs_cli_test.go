//go:build e2e

package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"confrev.io/confrev/test/env"
)

var update = flag.Bool("update", false, "write what the commands of docs/cli.md print into that page")

// session is a block of a page that shows commands, each behind "$ ", and what they print.
var session = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// What docs/cli.md shows is what its commands print, from the first to the last, in a namespace of their own. With -update, the page
// is rewritten instead.
func TestCLIPageShowsRealOutput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := filepath.Join(env.Root(), "docs", "cli.md")
	page, err := os.ReadFile(path)
	w.Must(err)
	commands, blocks := 0, 0
	got := session.ReplaceAllStringFunc(string(page), func(block string) string {
		blocks++
		var shown strings.Builder
		for _, step := range stepsOf(block) {
			commands++
			shown.WriteString("$ " + step.command + "\n" + w.session(step))
		}
		return "```console\n" + shown.String() + "```"
	})
	if commands < 20 || blocks != len(runsOf(t, "docs/cli.md")) {
		t.Fatalf("found only %d commands in %d blocks: the test reads the page wrongly", commands, blocks)
	}
	if *update {
		w.Must(os.WriteFile(path, []byte(got), 0o644))
	}
}

// step is a command of a page, and what the page says that it prints.
type step struct{ command, output string }

// stepsOf returns the commands of a block.
func stepsOf(block string) []step {
	var steps []step
	_, block, _ = strings.Cut(block, "\n")
	for line := range strings.Lines(strings.TrimSuffix(block, "```")) {
		if command, starts := strings.CutPrefix(line, "$ "); starts {
			steps = append(steps, step{command: strings.TrimSuffix(command, "\n")})
		} else {
			steps[len(steps)-1].output += line
		}
	}
	return steps
}

// looks are the verbs that change nothing. What they show may take a moment to come about, so they are asked until they show it.
var looks = regexp.MustCompile(`^kubectl confrev (status|history|uses|doctor|audit)`)

// session runs a command at the root of the source, as its reader would, and checks what it prints. It returns that, or what the page has
// where only spaces differ.
func (w *world) session(s step) string {
	w.Helper()
	var printed string
	run := func() string {
		printed = w.normalized(w.runIn(env.Root(), "", "sh", "-c", s.command+" 2>&1").stdout)
		if sameWords(printed, s.output) {
			printed = s.output
			return ""
		}
		return fmt.Sprintf("docs/cli.md is not what `%s` prints: run this test with -update.\nThe page:\n%s\nNow:\n%s", s.command, s.output, printed)
	}
	switch {
	case *update:
		run()
	case looks.MatchString(s.command):
		w.Eventually(s.command, run)
	default:
		if complaint := run(); complaint != "" {
			w.Fatal(complaint)
		}
	}
	return printed
}

// sameWords compares what is printed, whatever the width of its columns.
func sameWords(a, b string) bool {
	return slices.Equal(strings.Fields(a), strings.Fields(b)) && strings.Count(a, "\n") == strings.Count(b, "\n")
}

var (
	age        = regexp.MustCompile(`\b\d+(?:m\d+)?s\b`)
	headOfAges = regexp.MustCompile(`(?m)^[A-Z].*\bAGE\b`)
	timeOfDiff = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.0+`)
	replicaSet = regexp.MustCompile(`\bweb-[bcdfghjklmnpqrstvwxz2456789]{8,10}\b`)
	ownVersion = regexp.MustCompile(`\bv0\.0\.0-[^\s,]+|\(devel\)`)
	kubernetes = regexp.MustCompile(`\bserver v1\.[0-9.]+`)
	finding    = regexp.MustCompile(`^(?:Error|Warning|Info): `)
)

// normalized replaces what differs from run to run, or from cluster to cluster, and leaves out the findings of doctor about other
// namespaces and about the installation: other tests run at the same time, and confrev runs outside of the cluster.
func (w *world) normalized(text string) string {
	var paragraphs []string
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if !finding.MatchString(paragraph) || strings.Contains(paragraph, " in "+w.NS+": ") {
			paragraphs = append(paragraphs, strings.TrimRight(paragraph, "\n")+"\n")
		}
	}
	text = strings.Join(paragraphs, "\n")
	// As long as the name of a test's namespace, so that columns stay aligned.
	text = strings.ReplaceAll(text, w.NS, "team-blue")
	text = replicaSet.ReplaceAllString(text, "web-7f8fc54fb4")
	text = timeOfDiff.ReplaceAllString(text, "2026-01-02 03:04:05.000000000")
	text = ownVersion.ReplaceAllString(text, "v0.1.0")
	// The page is about the default of --settle.
	text = strings.ReplaceAll(text, "; using "+settle.String(), "; using 2s")
	text = kubernetes.ReplaceAllString(text, "server v1.36.3")
	if headOfAges.MatchString(text) {
		text = age.ReplaceAllStringFunc(text, func(text string) string { return fmt.Sprintf("%-*s", len(text), "5s") })
	}
	return trailing.ReplaceAllString(text, "\n")
}

// trailing is what tables have at the end of a line.
var trailing = regexp.MustCompile(` +\n`)
