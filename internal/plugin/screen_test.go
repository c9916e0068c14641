package plugin

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"confrev.io/confrev/internal/view"
)

func TestAScreenShowsNoControlSequence(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext, größer\n":            "plain\ttext, größer\n",
		"\x1b]0;title\x07":                 `\x1b]0;title\x07`,
		"\x1b[2J\x1b[1;31mall is well":     `\x1b[2J\x1b[1;31mall is well`,
		"over\rwritten\b\b":                `over\x0dwritten\x08\x08`,
		"a C1 control: \u009b2J":           `a C1 control: \u009b2J`,
		"reversed: \u202egnp.exe":          `reversed: \u202egnp.exe`,
		"no UTF-8: \xff\x9b":               `no UTF-8: \xff\x9b`,
		"\x7f":                             `\x7f`,
		"the replacement character \ufffd": "the replacement character \ufffd",
	} {
		var out bytes.Buffer
		s := screened(genericiooptions.IOStreams{Out: &out, ErrOut: &out})
		if n, err := s.Out.Write([]byte(text)); err != nil || n != len(text) {
			t.Errorf("wrote %d of %d, %v", n, len(text), err)
		}
		if out.String() != want {
			t.Errorf("%q is shown as %q, want %q", text, out.String(), want)
		}
	}
}

// hostile is an annotation that clears the screen, and adds a line that looks like the plugin's.
const hostile = "x\x1b[2J\nError: all is lost"

// What verbs say passes through the screen, and stays in its line.
func TestForeignTextIsShownOnOneLine(t *testing.T) {
	for name, say := range map[string]func(*plugin) error{
		"doctor": func(p *plugin) error {
			d := &view.Diagnosis{Findings: []view.Finding{{Severity: view.SeverityWarning, Object: "deployment/web", Message: hostile, Fix: hostile}}}
			return printDiagnosis(p.Out, d)
		},
		"notes": func(p *plugin) error { p.printNotes([]string{hostile}); return nil },
		"verbs that write": func(p *plugin) error {
			return (&writing{plugin: p, print: genericclioptions.NewPrintFlags("done")}).say(hostile)
		},
		"an error": func(p *plugin) error {
			_, err := fmt.Fprintln(p.ErrOut, "error:", explain(errors.New(hostile)))
			return err
		},
		"preview": func(p *plugin) error {
			o := &output{flags: genericclioptions.NewPrintFlags("")}
			return o.print(p.Out, previewReport{&view.PreviewList{Workloads: []view.Preview{
				{Workload: "deployment/web", Sources: []view.SourceChange{{Source: "configmap/app", Because: hostile}}}}}}, true)
		},
		"a table": func(p *plugin) error {
			o := &output{flags: genericclioptions.NewPrintFlags("")}
			*o.flags.OutputFormat = "wide"
			r := statusReport{&view.StatusList{Items: []view.WorkloadStatus{{Workload: "deployment/web", Message: hostile}}}}
			return o.print(p.Out, r, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := say(&plugin{IOStreams: screened(genericiooptions.IOStreams{Out: &out, ErrOut: &out})}); err != nil {
				t.Fatal(err)
			}
			if text := out.String(); text == "" || strings.Contains(text, "\x1b") || strings.Contains(text, "\nError") {
				t.Errorf("it shows %q", text)
			}
		})
	}
}

// diff hands contents to a program that writes to the terminal itself.
func TestDiffShowsNoControlSequence(t *testing.T) {
	if got := string(shownAs([]byte("\x1b[2Jnew\r\n"), false, false, true, "after")); got != "\\x1b[2Jnew\\x0d\n" {
		t.Errorf("it shows %q", got)
	}
}

// Only these write around the screen: formats for programs, rendered manifests, the diff program, and confrev's own colours.
func TestOnlyFewWriteAroundTheScreen(t *testing.T) {
	callers := callersIn(t, func(call *ast.CallExpr) bool {
		name, is := call.Fun.(*ast.Ident)
		return is && name.Name == "raw"
	})
	want := []string{"difffiles.go runDiff", "output.go print", "output.go printTable", "output.go terminal", "print.go printObject",
		"render.go newRender", "screen.go screened", "status.go redraw"}
	if !slices.Equal(callers, want) {
		t.Errorf("around the screen write %q, want %q", callers, want)
	}
}
