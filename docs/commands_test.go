package docs_test

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"confrev.io/confrev/internal/plugin"
)

// commandBlock is a block of a page that shows commands: sh as they are, console behind "$ " and with what they print.
var commandBlock = regexp.MustCompile("(?ms)^ *```(sh|console)\n(.*?)^ *```$")

// Each command line of the plugin that a page shows is one that it takes: the verb, its flags and the number of its arguments. End-to-end tests
// run them (test/e2e/docs_blocks_test.go), and those of the help texts; this one takes a second.
func TestCommandLinesOfThePluginAreValid(t *testing.T) {
	found := 0
	for _, path := range markdown(t) {
		for _, block := range commandBlock.FindAllStringSubmatch(read(t, path), -1) {
			for _, line := range commandLines(block[1], block[2]) {
				words, ok := pluginWords(line)
				if !ok {
					continue
				}
				found++
				if err := takes(words); err != nil {
					t.Errorf("%s shows %q: %v", path, line, err)
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("found only %d command lines: the test reads the pages wrongly", found)
	}
	t.Logf("%d command lines", found)
}

// commandLines returns the commands of a block, each in one line and without comments.
func commandLines(kind, block string) []string {
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", " ")) {
		command, prompted := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if kind == "console" && !prompted {
			continue
		}
		command, _, _ = strings.Cut(command, " #")
		lines = append(lines, command)
	}
	return lines
}

var (
	// ofThePlugin is where a call of the plugin begins, perhaps behind variables or within another command, and where it ends.
	ofThePlugin = regexp.MustCompile(`(?:^kubectl-|(?:^|[\s(;|])kubectl )confrev ([^|;&)>]*)`)
	shellWord   = regexp.MustCompile(`(?:"[^"]*"|'[^']*'|[^\s"'])+`)
)

// pluginWords returns what follows "kubectl confrev" in a command line, if that calls the plugin. Quotes are left out: no page needs what is in them
// to be taken apart.
func pluginWords(line string) (words []string, ok bool) {
	call := ofThePlugin.FindStringSubmatch(line)
	if call == nil {
		return nil, false
	}
	for _, word := range shellWord.FindAllString(call[1], -1) {
		words = append(words, strings.NewReplacer(`"`, "", `'`, "").Replace(word))
	}
	return words, len(words) > 0
}

// takes reports why the plugin refuses a command line, as far as that does not depend on a cluster.
func takes(words []string) error {
	root := plugin.Command(genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard})
	verb, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if verb == root {
		return fmt.Errorf("%q is not a verb", words[0])
	}
	if err := verb.ParseFlags(rest); err != nil {
		return err
	}
	return verb.ValidateArgs(verb.Flags().Args())
}

func TestCommandLinesAreTakenApart(t *testing.T) {
	for line, want := range map[string]string{
		`kubectl confrev status deployment/web --wait`:             "status|deployment/web|--wait",
		`X=1 kubectl confrev undo deployment/web | cat`:            "undo|deployment/web",
		`revision=$(kubectl confrev status -o 'jsonpath={.a b}')`:  "status|-o|jsonpath={.a b}",
		`kubectl-confrev render -f - >out.yaml`:                    "render|-f|-",
		`helm install confrev charts/confrev`:                      "",
		`kubectl annotate configmap/app confrev.io/advance=manual`: "",
	} {
		if words, _ := pluginWords(line); strings.Join(words, "|") != want {
			t.Errorf("%s: %q, want %s", line, words, want)
		}
	}
	for _, wrong := range []string{"stauts", "status --wiat", "undo deployment/web --to-revision"} {
		if takes(strings.Fields(wrong)) == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}
