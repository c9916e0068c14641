// Package printer prints what verbs found: for people, as tables in which nothing that others wrote reaches the terminal as a control
// sequence, and for programs, in kubectl's formats. It asks nothing of a cluster.
package printer

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/fatih/color"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
)

// Output is how a verb prints: kubectl's flags, and a table without them.
type Output struct {
	Flags *genericclioptions.PrintFlags
	// NoHeaders leaves out the headings of a table.
	NoHeaders bool
	// Colours are those of states on a terminal.
	Colours map[string]color.Attribute
	// Markdown is true for a verb that has the format markdown.
	Markdown bool

	// printer is the one of the flags, once there is one: it puts a line between documents.
	printer printers.ResourcePrinter
}

const markdown = "markdown"

// Add adds the flags.
func (o *Output) Add(cmd *cobra.Command) {
	o.Flags = genericclioptions.NewPrintFlags("")
	o.Flags.AddFlags(cmd)
	formats := "json, yaml, name, wide, "
	if o.Markdown {
		formats += markdown + ", "
	}
	cmd.Flags().Lookup("output").Usage = "Output format. One of: (" + formats +
		"go-template, go-template-file, template, templatefile, jsonpath, jsonpath-as-json, jsonpath-file)."
	cmd.Flags().BoolVar(&o.NoHeaders, "no-headers", false, "Print no headers in a table.")
}

// Format returns the output format: "" for a table.
func (o *Output) Format() string { return Format(o.Flags) }

// Format returns the output format that flags ask for; "" if they ask for none. Like kubectl, it takes a template alone for one.
func Format(flags *genericclioptions.PrintFlags) string {
	if *flags.OutputFormat == "" && *flags.TemplatePrinterFlags.TemplateArgument != "" {
		return "go-template"
	}
	return *flags.OutputFormat
}

// Check refuses an unknown format before anything is asked of the API server.
func (o *Output) Check() error {
	if o.IsTable() || o.IsMarkdown() {
		return nil
	}
	_, err := o.forPrograms()
	return err
}

// forPrograms returns the printer of a format for programs.
func (o *Output) forPrograms() (_ printers.ResourcePrinter, err error) {
	if o.printer == nil {
		o.printer, err = o.Flags.ToPrinter()
	}
	return o.printer, err
}

// IsMarkdown reports whether the output is a Markdown page.
func (o *Output) IsMarkdown() bool { return o.Markdown && o.Format() == markdown }

// IsTable reports whether the output is for people.
func (o *Output) IsTable() bool { return o.Format() == "" || o.Format() == "wide" }

// Print prints a report: for people and for -o name its table, whose rows name the objects that they are about; for programs the
// data, which has apiVersion and kind.
func (o *Output) Print(out io.Writer, data any, table *metav1.Table, withNamespace bool) error {
	if o.IsTable() {
		return o.PrintTable(out, table, withNamespace)
	}
	printer, err := o.forPrograms()
	if err != nil {
		return err
	}
	out = Raw(out)
	if o.Format() == "name" {
		for _, obj := range subjects(table) {
			if err := printer.PrintObj(obj, out); err != nil {
				return err
			}
		}
		return nil
	}
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	content := map[string]any{}
	if err := json.Unmarshal(text, &content); err != nil {
		return err
	}
	return printer.PrintObj(&unstructured.Unstructured{Object: content}, out)
}

// PrintTable prints a table for people.
func (o *Output) PrintTable(out io.Writer, table *metav1.Table, withNamespace bool) error {
	var text bytes.Buffer
	printer := printers.NewTablePrinter(printers.PrintOptions{
		NoHeaders: o.NoHeaders, Wide: o.Format() == "wide", WithNamespace: withNamespace,
	})
	if err := printer.PrintObj(table, &text); err != nil {
		return err
	}
	shown := Escaped(text.String())
	if Terminal(out) && !color.NoColor {
		shown = o.coloured(shown, table)
	}
	_, err := io.WriteString(Raw(out), shown)
	return err
}

// subjects returns the objects that the rows of a table are about. Rows that share one name it once.
func subjects(table *metav1.Table) []runtime.Object {
	var all []runtime.Object
	for _, row := range table.Rows {
		if obj := row.Object.Object; obj != continued && (len(all) == 0 || all[len(all)-1] != obj) {
			all = append(all, obj)
		}
	}
	return all
}

// continued is the subject of rows that continue the row above them.
var continued runtime.Object = &metav1.PartialObjectMetadata{}

// Row makes a row of a table about an object: its metadata, with its kind.
func Row(about *metav1.PartialObjectMetadata, cells ...any) metav1.TableRow {
	return metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Object: about}}
}

// Continued makes a row that continues the one above it.
func Continued(cells ...any) metav1.TableRow {
	return metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Object: continued}}
}

// Columns makes the columns of a table; those after wide are for -o wide only.
func Columns(names []string, wide ...string) []metav1.TableColumnDefinition {
	var all []metav1.TableColumnDefinition
	for _, name := range names {
		all = append(all, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	for _, name := range wide {
		all = append(all, metav1.TableColumnDefinition{Name: name, Type: "string", Priority: 1})
	}
	return all
}

// Terminal reports whether people look at what is written, as they wrote it.
func Terminal(out io.Writer) bool {
	file, ok := Raw(out).(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// StateColumn is the column whose cells have colours.
const StateColumn = "State"

// coloured returns the states of a table that was laid out their colours: the table's printer shows an escape character as ^[, and
// colours move nothing that way. Left of a state are names and numbers only, so it is the first of its line.
func (o *Output) coloured(text string, table *metav1.Table) string {
	column := slices.IndexFunc(table.ColumnDefinitions, func(c metav1.TableColumnDefinition) bool { return c.Name == StateColumn })
	lines := strings.SplitAfter(text, "\n")
	first := 1
	if o.NoHeaders {
		first = 0
	}
	for i, row := range table.Rows {
		if column < 0 {
			break
		}
		state := fmt.Sprint(row.Cells[column])
		if attribute, has := o.Colours[state]; has {
			colour := color.New(attribute)
			colour.EnableColor()
			lines[first+i] = strings.Replace(lines[first+i], " "+state, " "+colour.Sprint(state), 1)
		}
	}
	return strings.Join(lines, "")
}

// OrDash returns a cell of a table: a dash when there is nothing to say.
func OrDash(text string) string { return cmp.Or(text, "-") }
