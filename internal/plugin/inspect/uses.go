package inspect

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/view"
)

const usesLong = `Show which workloads use a source, and what a change to it would do to each.

 *  Rolls: it is rolled out, which replaces the pods.
 *  Restarts: the same, in mode restart: the pods read the source itself.
 *  NextJob: the next Job starts with it.
 *  Waits: nothing changes before what REASON says: a person, a deploy, a time, a turn, or the end of a pause.
 *  Stays: nothing happens.

KEYS are those that the workload uses; a change to others does nothing.`

const usesExample = `
		# What would roll out if this ConfigMap changed?
		kubectl confrev uses configmap/app

		# The same with how many pods, for a script
		kubectl confrev uses configmap/app -o json`

type uses struct{ question }

// NewUses returns the verb that shows what uses a source.
func NewUses(p *session.Session) *cobra.Command {
	o := &uses{question{Session: p}}
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

func (o *uses) Run(ctx context.Context) error {
	v, err := o.View(ctx, false)
	if err != nil {
		return err
	}
	list, err := v.Uses(ctx, o.objects)
	if err != nil {
		return err
	}
	return o.answer(list, list.Notes, usesTable(list), "No workload of the namespace "+o.Namespace()+" uses it.")
}

func usesTable(list *view.UseList) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: printer.Columns([]string{"Source", "Workload", "Effect", "Keys", "Pods", "Reason"}, "Mode")}
	for _, e := range list.Items {
		pods := "-"
		if e.Pods >= 0 {
			pods = fmt.Sprint(e.Pods)
		}
		keysUsed := "<all>"
		if len(e.Keys) > 0 {
			keysUsed = strings.Join(e.Keys, ",")
		}
		table.Rows = append(table.Rows, printer.Row(e.Metadata(), e.Source, e.Workload, string(e.Effect), keysUsed, pods, printer.OrDash(e.Reason), printer.OrDash(e.Mode)))
	}
	return table
}
