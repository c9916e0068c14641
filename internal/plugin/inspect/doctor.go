package inspect

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/view"
)

const doctorLong = `Diagnose problems of the installation and of a namespace, and suggest fixes.

A note names what you may not see; it is not judged. Exit status: 0 when nothing is wrong, 3 when there is an error or a warning, 1 when
the command itself failed.`

const doctorExample = `
		# The installation, and the namespace of the context
		kubectl confrev doctor

		# The whole cluster, as JSON
		kubectl confrev doctor -A -o json`

type doctorOptions struct {
	*session.Session
	printer.Output
	all  bool
	long time.Duration
}

// NewDoctor returns the verb that looks for problems.
func NewDoctor(p *session.Session) *cobra.Command {
	o := &doctorOptions{Session: p}
	cmd := &cobra.Command{
		Use:               "doctor",
		Short:             "Diagnose problems and suggest fixes",
		Long:              doctorLong,
		Example:           session.Examples(doctorExample),
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.Add(cmd)
	session.AddAll(cmd, &o.all)
	cmd.Flags().DurationVar(&o.long, "long", 24*time.Hour, "The length of time that a hold or a pause may last before it is a warning.")
	return session.Command(cmd, o)
}

func (o *doctorOptions) Fill(*cobra.Command, []string) error { return o.Check() }

func (o *doctorOptions) Run(ctx context.Context) error {
	v, err := o.View(ctx, o.all)
	if err != nil {
		return err
	}
	server, err := o.ServerVersion()
	if err != nil {
		return err
	}
	d, err := v.Diagnose(ctx, view.DiagnosisOptions{Server: server, Long: o.long, Now: time.Now()})
	if err != nil {
		return err
	}
	o.PrintNotes(d.Notes)
	if o.IsTable() {
		err = printDiagnosis(o.Out, d)
	} else {
		err = o.Print(o.Out, d, subjects(d), o.all)
	}
	if err == nil && d.Faulty() {
		return session.ExitStatus{Status: statusNotYet}
	}
	return err
}

func printDiagnosis(out io.Writer, d *view.Diagnosis) error {
	var text strings.Builder
	fmt.Fprintf(&text, "server %s, plugin %s, controller %s\n", d.Versions.Server, d.Versions.Plugin, cmp.Or(d.Versions.Controller, "unknown"))
	for _, f := range d.Findings {
		where := f.Object
		if f.Namespace != "" {
			where += " in " + f.Namespace
		}
		fmt.Fprintf(&text, "\n%s: %s: %s\n", f.Severity, where, printer.OneLine(f.Message))
		if f.Fix != "" {
			fmt.Fprintf(&text, "  fix: %s\n", printer.OneLine(f.Fix))
		}
	}
	if !d.Faulty() {
		text.WriteString("\nNothing is wrong, as far as you may see.\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// subjects returns a table without cells, for -o name: a finding is more than a line.
func subjects(d *view.Diagnosis) *metav1.Table {
	table := &metav1.Table{}
	for _, f := range d.Findings {
		table.Rows = append(table.Rows, printer.Row(f.Metadata()))
	}
	return table
}
