package printer

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fatih/color"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// Only the cell of the state has its color, not a message that is about one.
func TestStatesAreColoured(t *testing.T) {
	about := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}}
	table := &metav1.Table{ColumnDefinitions: Columns([]string{"Workload", StateColumn, "Message"}), Rows: []metav1.TableRow{
		Row(about, "deployment/web", "Held", "Held until RolledOut"), Row(about, "deployment/api", "RolledOut", "-"),
	}}
	for name, noHeaders := range map[string]bool{"with headings": false, "without headings": true} {
		t.Run(name, func(t *testing.T) {
			o := &Output{Flags: genericclioptions.NewPrintFlags(""), NoHeaders: noHeaders,
				Colours: map[string]color.Attribute{"Held": color.FgYellow, "RolledOut": color.FgGreen}}
			var plain bytes.Buffer
			if err := o.PrintTable(&plain, table, true); err != nil || strings.Contains(plain.String(), "\x1b") {
				t.Fatalf("%v, what is no terminal gets %q", err, plain.String())
			}
			got := o.coloured(plain.String(), table)
			for _, want := range []string{" \x1b[33mHeld\x1b[0m", "Held until RolledOut\n", " \x1b[32mRolledOut\x1b[0m"} {
				if !strings.Contains(got, want) || strings.Count(got, "\x1b[3") != 2 {
					t.Errorf("got %q, want %q in it", got, want)
				}
			}
		})
	}
}

// Each report of --watch is a document of its own.
func TestReportsInYAMLAreDocuments(t *testing.T) {
	o := &Output{Flags: genericclioptions.NewPrintFlags("").WithDefaultOutput("yaml")}
	var out bytes.Buffer
	for range 2 {
		report := metav1.TypeMeta{APIVersion: "cli.confrev.io/v1alpha1", Kind: "StatusList"}
		if err := o.Print(&out, report, nil, false); err != nil {
			t.Fatal(err)
		}
	}
	const one = "apiVersion: cli.confrev.io/v1alpha1\nkind: StatusList\n"
	if out.String() != one+"---\n"+one {
		t.Errorf("got %q", out.String())
	}
}

// Like kubectl, --template alone is enough.
func TestATemplateNeedsNoFormat(t *testing.T) {
	for name, test := range map[string]struct{ format, template, want string }{
		"alone":         {"", "{{.kind}}", "StatusList"},
		"with a format": {"go-template", "{{.apiVersion}}", "cli.confrev.io/v1alpha1"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &Output{Flags: genericclioptions.NewPrintFlags("").WithDefaultOutput(test.format)}
			*o.Flags.TemplatePrinterFlags.TemplateArgument = test.template
			var out bytes.Buffer
			report := metav1.TypeMeta{APIVersion: "cli.confrev.io/v1alpha1", Kind: "StatusList"}
			if err := o.Print(&out, report, &metav1.Table{}, false); err != nil || out.String() != test.want {
				t.Errorf("%v, got %q", err, out.String())
			}
		})
	}
}
