package plugin

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"

	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/view"
)

// output is how a verb prints: kubectl's flags, and a table without them.
type output struct {
	flags     *genericclioptions.PrintFlags
	noHeaders bool
}

func (o *output) add(cmd *cobra.Command) {
	o.flags = genericclioptions.NewPrintFlags("")
	o.flags.AddFlags(cmd)
	cmd.Flags().Lookup("output").Usage = "Output format. One of: (json, yaml, name, wide, " +
		"go-template, go-template-file, template, templatefile, jsonpath, jsonpath-as-json, jsonpath-file)."
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "Print no headers in a table.")
}

func (o *output) format() string { return *o.flags.OutputFormat }

// check refuses an unknown format before anything is asked of the API server.
func (o *output) check() error {
	if o.isTable() {
		return nil
	}
	_, err := o.flags.ToPrinter()
	return err
}

func (o *output) isTable() bool { return o.format() == "" || o.format() == "wide" }

// report is what a verb found.
type report interface {
	// table is for people; columns with a priority are for -o wide.
	table() *metav1.Table
	// object is the whole as one object with apiVersion and kind; named are the objects that it speaks of, for -o name.
	object() any
	named() []runtime.Object
}

// print prints a report.
func (o *output) print(out io.Writer, r report, withNamespace bool) error {
	if o.isTable() {
		return o.printTable(out, r.table(), withNamespace)
	}
	printer, err := o.flags.ToPrinter()
	if err != nil {
		return err
	}
	out = raw(out)
	if o.format() == "name" {
		for _, obj := range r.named() {
			if err := printer.PrintObj(obj, out); err != nil {
				return err
			}
		}
		return nil
	}
	text, err := json.Marshal(r.object())
	if err != nil {
		return err
	}
	content := map[string]any{}
	if err := json.Unmarshal(text, &content); err != nil {
		return err
	}
	return printer.PrintObj(&unstructured.Unstructured{Object: content}, out)
}

func (o *output) printTable(out io.Writer, table *metav1.Table, withNamespace bool) error {
	var text bytes.Buffer
	printer := printers.NewTablePrinter(printers.PrintOptions{
		NoHeaders: o.noHeaders, Wide: o.format() == "wide", WithNamespace: withNamespace,
	})
	if err := printer.PrintObj(table, &text); err != nil {
		return err
	}
	_, err := io.WriteString(raw(out), colour(escaped(text.String()), out))
	return err
}

// nameOnly returns an object that prints as kubectl names it: deployment.apps/web.
func nameOnly(gvk schema.GroupVersionKind, namespace, name string) runtime.Object {
	about := metadata.New(gvk)
	about.Namespace, about.Name = namespace, name
	return about
}

// row makes a row of a table about an object of a namespace.
func row(namespace string, cells ...any) metav1.TableRow {
	about := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
	return metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Object: about}}
}

// columns makes the columns of a table; those after wide are for -o wide only.
func columns(names []string, wide ...string) []metav1.TableColumnDefinition {
	var all []metav1.TableColumnDefinition
	for _, name := range names {
		all = append(all, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	for _, name := range wide {
		all = append(all, metav1.TableColumnDefinition{Name: name, Type: "string", Priority: 1})
	}
	return all
}

// terminal tells whether people look at what is written, as they wrote it.
func terminal(out io.Writer) bool {
	file, ok := raw(out).(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

var states = regexp.MustCompile(`\b(` + strings.Join([]string{
	string(view.RolledOut), string(view.Advancing), string(view.Held), string(view.Waiting), string(view.Missing),
	string(view.Paused), string(view.NotResolved), string(view.Failed),
}, "|") + `)\b`)

// colour makes states stand out, on a terminal. The layout is done already, so it moves nothing.
func colour(text string, out io.Writer) string {
	if !terminal(out) || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return states.ReplaceAllStringFunc(text, func(word string) string {
		code := 33
		switch view.State(word) {
		case view.RolledOut:
			code = 32
		case view.Missing, view.NotResolved, view.Failed:
			code = 31
		}
		return fmt.Sprintf("\x1b[%dm%s\x1b[0m", code, word)
	})
}

// printNotes says on standard error what a report does not show.
func (p *plugin) printNotes(notes []string) {
	for _, note := range notes {
		_, _ = fmt.Fprintln(p.ErrOut, "note:", oneLine(note))
	}
}
