package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/view"
)

const historyLong = `Show the revisions of a source, or of all sources that a workload is pinned to: what uses each, and what changed.

CHANGES compares with the number before: "+a -b ~c" means that key a was added, b removed and c changed. It compares digests; values
are not read. CURRENT marks the revision with the source's present content. USED BY shows the workloads whose templates, or whose kept
ReplicaSets, ControllerRevisions or Jobs, are pinned to it; -o wide shows the latter too, and the size.`

const historyExample = `
		# The revisions of a ConfigMap
		kubectl confrev history configmap/app

		# Those of all that a Deployment is pinned to, with sizes and who holds them
		kubectl confrev history deployment/web -o wide

		# The names of all revisions
		kubectl confrev history configmap/app -o name`

// question is a verb about objects that have to be named.
type question struct {
	*session.Session
	printer.Output
	objects []view.Object
}

func (q *question) Fill(_ *cobra.Command, args []string) (err error) {
	if err := q.Check(); err != nil {
		return err
	}
	q.objects, err = q.Objects(args)
	return err
}

// answer prints what was found. In place of an empty table people read what none means.
func (q *question) answer(data any, notes []string, table *metav1.Table, none string) error {
	q.PrintNotes(notes)
	if len(table.Rows) == 0 && q.IsTable() {
		_, err := fmt.Fprintln(q.ErrOut, none)
		return err
	}
	return q.Print(q.Out, data, table, false)
}

type history struct{ question }

// NewHistory returns the verb that shows the revisions of sources.
func NewHistory(p *session.Session) *cobra.Command {
	o := &history{question{Session: p}}
	cmd := &cobra.Command{
		Use:               "history TYPE/NAME...",
		Short:             "Show the revisions of a source or workload, what uses them, and what changed",
		Long:              historyLong,
		Example:           session.Examples(historyExample),
		Args:              session.NeedsObjects,
		ValidArgsFunction: p.CompleteSourcesAndWorkloads,
	}
	o.Add(cmd)
	return session.Command(cmd, o)
}

func (o *history) Run(ctx context.Context) error {
	v, err := o.View(ctx, false)
	if err != nil {
		return err
	}
	list, err := v.History(ctx, o.objects, o.Format() != "" && o.Format() != "name")
	if err != nil {
		return err
	}
	return o.answer(list, list.Notes, historyTable(list), "No revisions found: no workload is pinned to one.")
}

// shownKeys is how many keys of a kind of change, or names, a line shows.
const shownKeys = 3

// changesText returns the changes in a line: "+added -removed ~changed".
func changesText(c view.Changes) string {
	var parts []string
	add := func(sign string, keys []string) {
		for _, key := range first(keys, shownKeys, "%d more") {
			parts = append(parts, sign+key)
		}
	}
	add("+", c.Added)
	add("-", c.Removed)
	add("~", c.Changed)
	return printer.OrDash(strings.Join(parts, " "))
}

func historyTable(list *view.HistoryList) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: printer.Columns(
		[]string{"Source", "Number", "Current", "Age", "Used By", "Pods", "Changes", "Change-Cause"}, "Revision", "Bytes", "Held By")}
	for _, h := range list.Items {
		for _, e := range h.Revisions {
			current := ""
			if e.Current {
				current = "*"
			}
			table.Rows = append(table.Rows, printer.Row(h.Metadata(e), h.Source, fmt.Sprint(e.Number), printer.OrDash(current),
				duration.HumanDuration(time.Since(e.Created.Time)), firstNames(e.Workloads), fmt.Sprint(e.Pods), changesText(e.Changes), printer.OrDash(e.ChangeCause),
				e.Name, fmt.Sprint(e.Bytes), firstNames(e.Holders)))
		}
	}
	return table
}

func firstNames(names []string) string {
	return printer.OrDash(strings.Join(first(names, shownKeys, "+%d more"), ","))
}

// first shortens a list to its first items. The last one says in place of the others how many more there are.
func first(all []string, shown int, more string) []string {
	if len(all) > shown {
		return append(slices.Clone(all[:shown]), fmt.Sprintf(more, len(all)-shown))
	}
	return all
}
