// Command docs writes the reference and the manual pages of kubectl-confrev, which are derived from its commands, the schema of the annotations,
// which is derived from internal/optin, and the chart's page, which is derived from its values.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"confrev.io/confrev/internal/plugin"
)

// folders are what can be written, each to its own folder. The reference is committed; manual pages are part of a release.
var folders = map[string]func(root *cobra.Command) (map[string][]byte, error){"reference": references, "man": manuals}

func main() {
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == "chart":
		var page []byte
		if page, err = chartPage(os.Args[2]); err == nil {
			_, err = os.Stdout.Write(page)
		}
	case len(os.Args) == 3 && folders[os.Args[1]] != nil:
		err = write(os.Args[1], os.Args[2])
	default:
		fmt.Fprintln(os.Stderr, "usage: go run ./hack/docs (reference | man) DIRECTORY\n       go run ./hack/docs chart CHART  (prints the chart's page)")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hack/docs:", err)
		os.Exit(1)
	}
}

// write writes a folder, and removes whatever was in it before.
func write(folder, dir string) error {
	pages, err := folders[folder](commands())
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), page, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func references(root *cobra.Command) (map[string][]byte, error) {
	// Of the commands as they are: making a page adds one for help.
	list := index(root)
	pages, err := each(root, file, reference)
	if err != nil {
		return nil, err
	}
	pages["README.md"] = list
	pages[schemaFile], err = annotationsSchema()
	return pages, err
}

func manuals(root *cobra.Command) (map[string][]byte, error) { return each(root, manualName, manual) }

// each writes a page for each command.
func each(root *cobra.Command, name func(*cobra.Command) string, page func(*cobra.Command) ([]byte, error)) (map[string][]byte, error) {
	pages := map[string][]byte{}
	for _, cmd := range below(root) {
		showConnection(root, cmd.Name() == "options")
		text, err := page(cmd)
		if err != nil {
			return nil, err
		}
		pages[name(cmd)] = text
	}
	return pages, nil
}

// commands returns the plugin's commands with the texts of pages, the same on every machine.
func commands() *cobra.Command {
	root := plugin.Command(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: io.Discard, ErrOut: io.Discard})
	root.PersistentFlags().Lookup("cache-dir").DefValue = "~/.kube/cache"
	for _, cmd := range below(root) {
		cmd.DisableAutoGenTag = true
		// In a terminal, examples are indented; in a page they have a block of their own.
		cmd.Example = strings.TrimPrefix(strings.ReplaceAll(cmd.Example, "\n  ", "\n"), "  ")
	}
	return root
}

// showConnection shows or hides kubectl's connection flags, which only one page has, for all.
func showConnection(root *cobra.Command, show bool) {
	root.PersistentFlags().VisitAll(func(flag *pflag.Flag) { flag.Hidden = !show && flag.Deprecated == "" })
}

// below returns a command and all its subcommands.
func below(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			all = append(all, below(sub)...)
		}
	}
	return all
}

// file returns the name that cobra gives to a command's page.
func file(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "_") + ".md" }

func manualName(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
}

// headings are cobra's. A page begins at the second level, as if it were part of another.
var headings = regexp.MustCompile(`(?m)^#(##? )`)

func reference(cmd *cobra.Command) ([]byte, error) {
	var page strings.Builder
	if err := doc.GenMarkdown(cmd, &page); err != nil {
		return nil, err
	}
	text := headings.ReplaceAllString(page.String(), "$1")
	text = strings.Replace(text, "## Examples\n\n```\n", "## Examples\n\n```sh\n", 1)
	text = strings.Replace(text, "## SEE ALSO", "## See also", 1)
	if options := connection(cmd); options != nil {
		text = fmt.Sprintf("%s\n* [%s](%s)\t - %s\n", strings.TrimRight(text, "\n"), options.CommandPath(), file(options), options.Short)
	}
	return []byte(strings.TrimRight(text, "\n") + "\n"), nil
}

func manual(cmd *cobra.Command) ([]byte, error) {
	var page strings.Builder
	if err := doc.GenMan(cmd, &doc.GenManHeader{Manual: "confrev", Date: &time.Time{}}, &page); err != nil {
		return nil, err
	}
	// cobra would have today's date there, and a page that changes every month.
	text := strings.Replace(page.String(), `"Jan 0001"`, `""`, 1)
	if options := connection(cmd); options != nil {
		text = fmt.Sprintf("%s, \\fB%s(1)\\fP\n", strings.TrimRight(text, "\n"), strings.TrimSuffix(manualName(options), ".1"))
	}
	return []byte(text), nil
}

// connection returns the command whose pages have kubectl's connection flags, for pages that do not link to it.
func connection(cmd *cobra.Command) *cobra.Command {
	options, _, err := cmd.Root().Find([]string{"options"})
	if err != nil || cmd == options || cmd == cmd.Root() {
		return nil
	}
	return options
}

// index lists the pages in the order of the plugin's help.
func index(root *cobra.Command) []byte {
	var page bytes.Buffer
	fmt.Fprintf(&page, "# %s\n\n%s\n\n[docs/cli.md](../cli.md) shows each command with its output.\n", root.CommandPath(), root.Long)
	for _, group := range root.Groups() {
		fmt.Fprintf(&page, "\n## %s\n\n| command | |\n|---|---|\n", strings.TrimSuffix(group.Title, ":"))
		for _, verb := range root.Commands() {
			if verb.GroupID != group.ID {
				continue
			}
			for _, cmd := range below(verb) {
				name := strings.TrimPrefix(cmd.CommandPath(), root.CommandPath()+" ")
				fmt.Fprintf(&page, "| [%s](%s) | %s |\n", name, file(cmd), cmd.Short)
			}
		}
	}
	fmt.Fprintf(&page, "\n## Annotations\n\n[%s](%s) is a JSON Schema of what you write into annotations and labels ([the values](../rules/annotations.md)).\n", schemaFile, schemaFile)
	return page.Bytes()
}
