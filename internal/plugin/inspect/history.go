package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/view"
)

const historyLong = `Show the revisions of a source, or of all sources that a workload is pinned to: who uses each, and what changed.

CHANGES compares with the number before: "+a -b ~c" means that key a was added, b removed and c changed. It is told from digests,
values are not read. CURRENT marks the revision with the source's present content. USED BY has the workloads whose templates, or
whose kept ReplicaSets, ControllerRevisions or Jobs, are pinned to it; with -o wide these too, and the size.`

const historyExample = `
		# The revisions of a ConfigMap
		kubectl confrev history configmap/app

		# Those of all that a Deployment is pinned to, with sizes and who holds them
		kubectl confrev history deployment/web -o wide

		# The names of all revisions
		kubectl confrev history configmap/app -o name`

type historyOptions struct {
	*session.Session
	printer.Output
	objects []view.Object
}

// NewHistory returns the verb that shows the revisions of sources.
func NewHistory(p *session.Session) *cobra.Command {
	o := &historyOptions{Session: p}
	cmd := &cobra.Command{
		Use:               "history TYPE/NAME...",
		Short:             "Show the revisions of a source or workload, who uses them, and what changed",
		Long:              historyLong,
		Example:           session.Examples(historyExample),
		Args:              session.NeedsObjects,
		ValidArgsFunction: p.CompleteSourcesAndWorkloads,
	}
	o.Add(cmd)
	return session.Command(cmd, o)
}

// Fill reads the objects.
func (o *historyOptions) Fill(_ *cobra.Command, args []string) (err error) {
	if err := o.Check(); err != nil {
		return err
	}
	o.objects, err = o.Objects(args)
	return err
}

// Run shows the revisions.
func (o *historyOptions) Run(ctx context.Context) error {
	v, err := o.Look(ctx, false)
	if err != nil {
		return err
	}
	list, err := v.History(ctx, o.objects, o.Format() != "" && o.Format() != "name")
	if err != nil {
		return err
	}
	o.PrintNotes(list.Notes)
	report := historyReport{list}
	if report.empty() && o.IsTable() {
		_, err := fmt.Fprintf(o.ErrOut, "No revisions found: no workload that confrev follows uses it.\n")
		return err
	}
	return o.Print(o.Out, report, false)
}

// historyReport prints a history.
type historyReport struct{ *view.HistoryList }

// shownKeys is how many keys of a kind of change, or names, a line shows.
const shownKeys = 3

// changesText returns the changes in a line: "+added -removed ~changed".
func changesText(c view.Changes) string {
	var parts []string
	add := func(sign string, keys []string) {
		for i, key := range keys {
			if i == shownKeys {
				parts = append(parts, fmt.Sprintf("%s%d more", sign, len(keys)-shownKeys))
				break
			}
			parts = append(parts, sign+key)
		}
	}
	add("+", c.Added)
	add("-", c.Removed)
	add("~", c.Changed)
	return printer.OrDash(strings.Join(parts, " "))
}

func (r historyReport) empty() bool {
	return !slices.ContainsFunc(r.Items, func(h view.SourceHistory) bool { return len(h.Revisions) > 0 })
}

func (r historyReport) Object() any { return r.HistoryList }

func (r historyReport) Named() []runtime.Object {
	var all []runtime.Object
	for _, h := range r.Items {
		for _, entry := range h.Revisions {
			all = append(all, printer.NameOnly(revision.GVK(h.Of.Kind), h.Namespace, entry.Name))
		}
	}
	return all
}

func (r historyReport) Table() *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: printer.Columns(
		[]string{"Source", "Number", "Current", "Age", "Used By", "Pods", "Changes", "Change-Cause"}, "Revision", "Bytes", "Held By")}
	for _, h := range r.Items {
		for _, e := range h.Revisions {
			current := ""
			if e.Current {
				current = "*"
			}
			table.Rows = append(table.Rows, printer.Row(h.Namespace, h.Source, fmt.Sprint(e.Number), printer.OrDash(current),
				duration.HumanDuration(time.Since(e.Created.Time)), few(e.Workloads), fmt.Sprint(e.Pods), changesText(e.Changes), printer.OrDash(e.ChangeCause),
				e.Name, fmt.Sprint(e.Bytes), few(e.Holders)))
		}
	}
	return table
}

// few shows the first names of many.
func few(names []string) string {
	if len(names) > shownKeys {
		return strings.Join(names[:shownKeys], ",") + fmt.Sprintf(",+%d more", len(names)-shownKeys)
	}
	return printer.OrDash(strings.Join(names, ","))
}
