package inspect

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/view"
)

const usesLong = `Show which workloads use a source, and what a change to it would do to each.

 *  Rolls: it is rolled out, which replaces the pods.
 *  Restarts: the same, in mode restart: the pods read the source itself.
 *  NextJob: the next Job has it.
 *  Waits: nothing changes until a person approves it.
 *  Stays: nothing happens.

KEYS are those that the workload uses; a change to others does nothing.`

const usesExample = `
		# Who would roll if this ConfigMap changed?
		kubectl confrev uses configmap/app

		# The same with how many pods, for a script
		kubectl confrev uses configmap/app -o json`

type usesOptions struct {
	*session.Session
	printer.Output
	objects []view.Object
}

// NewUses returns the verb that shows who uses a source.
func NewUses(p *session.Session) *cobra.Command {
	o := &usesOptions{Session: p}
	cmd := &cobra.Command{
		Use:               "uses TYPE/NAME...",
		Short:             "Show what uses a source, and what a change to it would do",
		Long:              usesLong,
		Example:           session.Examples(usesExample),
		Args:              session.NeedsObjects,
		ValidArgsFunction: p.CompleteSource,
	}
	o.Add(cmd)
	return session.Command(cmd, o)
}

// Fill reads the objects.
func (o *usesOptions) Fill(_ *cobra.Command, args []string) (err error) {
	if err := o.Check(); err != nil {
		return err
	}
	o.objects, err = o.Objects(args)
	return err
}

// Run shows who uses the sources.
func (o *usesOptions) Run(ctx context.Context) error {
	v, err := o.Look(ctx, false)
	if err != nil {
		return err
	}
	list, err := v.Uses(ctx, o.objects)
	if err != nil {
		return err
	}
	o.PrintNotes(list.Notes)
	if len(list.Items) == 0 && o.IsTable() {
		_, err := fmt.Fprintf(o.ErrOut, "No workload of the namespace %s uses it.\n", o.Namespace())
		return err
	}
	return o.Print(o.Out, usesReport{list}, false)
}

// usesReport prints uses.
type usesReport struct{ *view.UseList }

func (r usesReport) Object() any { return r.UseList }

func (r usesReport) Named() []runtime.Object {
	var all []runtime.Object
	for _, item := range r.Items {
		_, name, _ := strings.Cut(item.Workload, "/")
		all = append(all, printer.NameOnly(item.GVK, item.Namespace, name))
	}
	return all
}

func (r usesReport) Table() *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: printer.Columns([]string{"Source", "Workload", "Effect", "Keys", "Pods", "Reason"}, "Mode")}
	for _, e := range r.Items {
		pods, mode := "-", e.Mode
		if e.Pods >= 0 {
			pods = fmt.Sprint(e.Pods)
		}
		keysUsed := "<all>"
		if len(e.Keys) > 0 {
			keysUsed = strings.Join(e.Keys, ",")
		}
		table.Rows = append(table.Rows, printer.Row(e.Namespace, e.Source, e.Workload, string(e.Effect), keysUsed, pods, printer.OrDash(e.Reason), printer.OrDash(mode)))
	}
	return table
}
