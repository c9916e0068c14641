//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"confrev.io/confrev/test/env"
)

// Every command of the docs does something that works, from the first of a page to the last, and prints what the page shows; all YAML is
// applied. Each page has a namespace of its own, with docs/examples/web.yaml and a change to it. What else a section is about comes from the
// page's file in testdata/docs, from the part with the section's heading; testdata/docs/prelude.sh has what is only checked.
func TestCommandsOfTheDocs(t *testing.T) {
	t.Parallel()
	// The pages are about what there is then.
	onlyWithPolicies(t)
	for _, page := range pagesWithCommands(t) {
		if blocks := runsOf(t, page); len(blocks) > 0 {
			t.Run(strings.ReplaceAll(page, "/", "_"), func(t *testing.T) {
				t.Parallel()
				newReader(t, page).follow(blocks)
			})
		}
	}
}

// reader does what a page says, in a directory with the files of the source that pages name.
type reader struct {
	*world
	dir, home string
	// What a section needs, by its heading.
	needs   map[string]string
	section string
	// What the block before has printed.
	printed string
}

func newReader(t *testing.T, page string) *reader {
	t.Helper()
	r := &reader{world: newWorld(t), dir: t.TempDir(), home: t.TempDir(), needs: needsOf(t, page)}
	for _, folder := range []string{"charts", "deploy", "docs/examples"} {
		r.Must(os.CopyFS(filepath.Join(r.dir, folder), os.DirFS(filepath.Join(env.Root(), folder))))
	}
	r.Kubectl("apply", "-f", filepath.Join(env.Root(), "docs", "examples", "web.yaml"))
	r.WaitOwned(r.WaitPinned("web", "app", "color", "blue").Revision, "web")
	r.Edit("app", "color", "green")
	r.WaitOwned(r.WaitPinned("web", "app", "color", "green").Revision, "web")
	t.Cleanup(func() {
		// The test's own context has ended.
		r.Ctx = context.Background()
		if later := r.file(".later"); later != "" {
			r.mustRun("what is to be done later", later)
		}
	})
	return r
}

// needsOf reads a page's file of testdata/docs. Each of its parts must be of a section that the page has.
func needsOf(t *testing.T, page string) map[string]string {
	t.Helper()
	needs := map[string]string{}
	text, err := os.ReadFile(filepath.Join("testdata", "docs", strings.TrimSuffix(page, ".md")+".sh"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq("\n"+string(text), "\n## ") {
		section, commands, _ := strings.Cut(part, "\n")
		if needs[section] = commands; !slices.ContainsFunc(blocksOf(t, page), func(b block) bool { return section == "" || b.section == section }) {
			t.Errorf("%s has no section %q with code: remove it from testdata/docs", page, section)
		}
	}
	return needs
}

func (r *reader) follow(blocks []block) {
	r.Helper()
	r.mustRun("what the page needs", r.needs[""])
	for _, b := range blocks {
		if r.section != b.section {
			r.section, r.printed = b.section, ""
			r.mustRun("what "+b.String()+" needs", r.needs[b.section])
		}
		switch run, _ := b.commands(); {
		case len(run) == 0:
		case b.language == "sh" && strings.HasPrefix(b.text, "#!"):
			r.writes(b)
		case b.language == "sh":
			// The shell does not end when the first of two commands fails.
			r.printed = r.mustRun(b.String(), strings.ReplaceAll(strings.Join(run, ""), " && ", "\n"))
		case b.language == "console" && strings.HasPrefix(b.text, "$ "):
			for _, s := range stepsOf("\n" + b.text) {
				r.shows(b, s)
			}
		case b.language == "yaml":
			r.applies(b)
		case r.printed != "":
			r.isLike(b, b.text, r.printed)
		default:
			r.shows(b, step{r.file(".shows"), b.text})
		}
	}
	if checked := r.file(".checked"); checked != "" {
		r.Logf("%d commands were only checked:\n%s", strings.Count(checked, "\n")+1, checked)
	}
}

// run runs commands as a reader does.
func (r *reader) run(commands string) outcome {
	r.Helper()
	return r.runIn(r.dir, "", slices.Concat([]string{"env", "ROOT=" + env.Root(), "NS=" + r.NS, "CHECKED=" + filepath.Join(r.dir, ".checked"),
		"CONFREV=" + binary, "CONFREV_LOG=" + confrev.Log}, r.tools(),
		[]string{"bash", "-eEo", "pipefail", "-c", "source $ROOT/test/e2e/testdata/docs/prelude.sh\n" + r.named(commands) + "\nended $?"})...)
}

// mustRun runs commands that must succeed, and returns what they print.
func (r *reader) mustRun(what, commands string) string {
	r.Helper()
	got := r.run("exec 2>&1\n" + commands)
	if got.status != 0 {
		r.Errorf("%s: status %d\n%s\n%s", what, got.status, commands, got.stdout)
	}
	return got.stdout
}

// shows runs a command that prints what the page shows. What it prints may take a moment to come about.
func (r *reader) shows(b block, s step) {
	r.Helper()
	var complaint string
	r.Poll(patience, func() string {
		got := r.run("exec 2>&1\n" + s.command)
		complaint = r.differs(s.output, got.stdout)
		if !asks.MatchString(s.command) {
			return ""
		}
		return complaint
	})
	if complaint != "" {
		r.Errorf("%s: %s %s", b, s.command, complaint)
	}
}

func (r *reader) isLike(b block, want, got string) {
	r.Helper()
	if complaint := r.differs(want, got); complaint != "" {
		r.Errorf("%s %s", b, complaint)
	}
}

// differs complains if something was printed that is not what a page shows, where … is anything, and the width of columns does not matter.
func (r *reader) differs(want, got string) string {
	words := func(text string) string { return strings.Join(strings.Fields(r.normalized(r.named(text))), " ") }
	pattern := strings.ReplaceAll(regexp.QuoteMeta(words(want)), "…", ".*")
	if regexp.MustCompile("^" + pattern + "$").MatchString(words(got)) {
		return ""
	}
	return fmt.Sprintf("prints\n%s\nand the page has\n%s", r.normalized(got), want)
}

// ofPages are the namespaces that pages name, where they are names of namespaces.
var ofPages = regexp.MustCompile(`(-n |namespace[ =]|Namespaces=\{|serviceaccount:|,)(shop|prod|team-a|team-b|argocd|tutorial)\b`)

// named puts the reader's own namespace in the place of those of a page. The second of a page, and one that it creates, have it in their name.
func (r *reader) named(text string) string {
	return ofPages.ReplaceAllStringFunc(strings.NewReplacer("~/", r.home+"/", "/tmp/", r.home+"/", "/usr/local/", r.home+"/").Replace(text), func(found string) string {
		parts := ofPages.FindStringSubmatch(found)
		if parts[2] == "team-b" || parts[2] == "tutorial" {
			return parts[1] + r.NS + "-" + parts[2]
		}
		return parts[1] + r.NS
	})
}

// file returns what is in a file of the reader's directory.
func (r *reader) file(name string) string {
	text, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil && !os.IsNotExist(err) {
		r.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// tools returns the variables with which the reader finds the tools, and Helm its plugins.
func (r *reader) tools() (variables []string) {
	r.Helper()
	path := ""
	for _, name := range []string{"helm", "helm3", "kustomize"} {
		tool, err := cluster.Tool(r.Ctx, name)
		r.Must(err)
		path += ":" + filepath.Dir(tool)
	}
	return []string{"TOOLS=" + strings.TrimPrefix(path, ":"), "HELM_CACHE_HOME=" + r.home, "HELM_CONFIG_HOME=" + r.home, "HELM_DATA_HOME=" + r.home}
}
