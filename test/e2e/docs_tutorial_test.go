//go:build e2e

package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"confrev.io/confrev/test/env"
)

// Every command of docs/tutorial.md does something that works, from the first to the last, and prints what the page shows. The test has a cluster
// with confrev and a namespace, so it leaves out how the reader gets them, and how they go.
func TestCommandsOfTheTutorial(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	blocks := runsOf(t, "docs/tutorial.md")
	commands := 0
	for i, block := range blocks {
		if block.language != "sh" {
			if i == 0 || blocks[i-1].language != "sh" {
				t.Errorf("%s is not what the commands before it print", block)
			}
			continue
		}
		var output []string
		if i+1 < len(blocks) && blocks[i+1].language == "console" {
			output = strings.Split(strings.TrimSuffix(blocks[i+1].text, "\n"), "\n")
		}
		for command := range strings.Lines(block.text) {
			commands++
			output = w.follow(strings.TrimSuffix(command, "\n"), output)
		}
		if len(output) > 0 {
			t.Errorf("no command printed\n%s\nafter\n%s", strings.Join(output, "\n"), block.text)
		}
	}
	if commands < 20 {
		t.Errorf("found only %d commands: the test reads the page wrongly", commands)
	}
}

// asks are the commands that change nothing, and are asked again until they print what the page shows.
var asks = regexp.MustCompile(`^kubectl (get|confrev (status|history|uses)) `)

// follow runs a command as a reader does, and returns what is left of the output that the page shows for its block: of each command, the page
// shows all lines or none.
func (w *world) follow(command string, output []string) (left []string) {
	w.Helper()
	try := func() string {
		got := w.runIn(env.Root(), "", "sh", "-ec", command+" 2>&1")
		// status ends with 3 while a workload is behind its sources, as after an undo.
		if got.status != 0 && (got.status != 3 || !strings.HasPrefix(command, "kubectl confrev status ")) {
			w.Fatalf("%s: status %d\n%s", command, got.status, got.stdout)
		}
		lines := strings.Split(strings.TrimSpace(w.normalized(got.stdout)), "\n")
		for i, line := range lines {
			if i >= len(output) || !sameWords(line, output[i]) {
				return fmt.Sprintf("%s prints\n%s\nand the page has\n%s", command, strings.Join(lines, "\n"), strings.Join(output, "\n"))
			}
		}
		left = output[len(lines):]
		return ""
	}
	if len(output) > 0 && asks.MatchString(command) {
		w.Eventually(command, try)
		return left
	}
	if try() != "" {
		return output
	}
	return left
}
