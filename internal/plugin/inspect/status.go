// Package inspect has the verbs that answer questions: status, history, uses, diff and doctor. What they print is data of package view.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fatih/color"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/view"
)

// statusNotYet is the exit status for what is not, or not yet, as it should be.
const statusNotYet = session.StatusFound

// statusFailed is the exit status of a rollout that failed.
const statusFailed = 4

const statusLong = `Show which revision of each source every workload is pinned to, and how far the rollout of the present one is.

 *  RolledOut: pinned to the present content, and all pods carry it.
 *  Advancing: about to be pinned to it, or being rolled out.
 *  Held: rolled back. It stays until the source changes, a deploy changes code that was undone, or it is resumed.
 *  Waiting: a setting makes it wait, for a person, a deploy, a time or its turn (-o wide shows it), or a person decides: a
    partition, OnDelete, or a step of an Argo Rollout without a duration.
 *  Paused: the workload is paused.
 *  Failed: its controller reports that the rollout failed: the progress deadline of a Deployment, a degraded Argo Rollout.
 *  Missing: the source, or a key that a container requires, does not exist.
 *  NotResolved: its controller has rolled it out, yet some pods do not carry the pins.
 *  Unknown: you lack a permission that is needed to decide.
 *  Untracked: confrev does not follow it.

PODS shows how many pods carry which revision: "2@4,1@3". A pod that carries no pin reads the source itself: "1@live".

Workloads that confrev does not follow are shown only when they are named. Exit status: 0 when all that is shown is rolled out, 4
when a rollout failed, 3 when something else is not rolled out, 1 when there was an error.

With --wait, the command ends as soon as the present content of all sources has reached every pod. It ends with status 3 when the
time is over, or when a workload is in a state that does not end without action: Missing, Held or Unknown; Paused, except by confrev;
Waiting, except for a time or its turn. It ends with status 4 when one Failed. Without any workload to wait for, it fails.

With the names of sources: how far changes to them have spread (confrev.io/steps, confrev.io/max-rolling). Exit status: 0 when they are
complete, 4 when one was stopped, otherwise 3.`

const statusExample = `
		# All workloads of the namespace that confrev follows
		kubectl confrev status

		# One Deployment, and all workloads with a label
		kubectl confrev status deployment/web
		kubectl confrev status -l app=web

		# The whole cluster, as JSON
		kubectl confrev status -A -o json

		# In a pipeline: apply, then wait until every pod has it
		kubectl confrev status deployment/web --wait --timeout=5m

		# How far has a change to this ConfigMap spread?
		kubectl confrev status configmap/app --watch`

type statusOptions struct {
	*session.Session
	printer.Output
	all         bool
	selector    string
	watch, wait bool
	timeout     time.Duration
	which       view.Which
}

var colours = map[string]color.Attribute{
	string(view.RolledOut): color.FgGreen,
	string(view.Advancing): color.FgYellow, string(view.Held): color.FgYellow, string(view.Waiting): color.FgYellow, string(view.Paused): color.FgYellow,
	string(view.Missing): color.FgRed, string(view.NotResolved): color.FgRed, string(view.Failed): color.FgRed,
}

// NewStatus returns the verb status.
func NewStatus(p *session.Session) *cobra.Command {
	o := &statusOptions{Session: p}
	o.Colours = colours
	cmd := &cobra.Command{
		Use:               "status [TYPE/NAME | TYPE NAME]...",
		Short:             "Show what workloads are pinned to, and whether it has reached their pods",
		Long:              statusLong,
		Example:           session.Examples(statusExample),
		ValidArgsFunction: p.CompleteSourcesAndWorkloads,
	}
	o.Add(cmd)
	session.AddAll(cmd, &o.all)
	flags := cmd.Flags()
	flags.StringVarP(&o.selector, "selector", "l", "", "Selector (label query) to filter workloads on, supports '=', '==', '!=', 'in' and 'notin'.")
	flags.BoolVarP(&o.watch, "watch", "w", false, "After listing the status, watch for changes.")
	flags.BoolVar(&o.wait, "wait", false, "Wait until everything is rolled out.")
	flags.DurationVar(&o.timeout, "timeout", 0, "The length of time to --wait. Zero means wait forever.")
	cmd.MarkFlagsMutuallyExclusive("watch", "wait")
	return session.Command(cmd, o)
}

func (o *statusOptions) Fill(_ *cobra.Command, args []string) (err error) {
	if o.which.Labels, err = labels.Parse(o.selector); err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	if o.timeout != 0 && !o.wait {
		return errors.New("--timeout is for --wait")
	}
	if err := o.Check(); err != nil || len(args) == 0 {
		return err
	}
	mapper, err := o.Factory.ToRESTMapper()
	if err != nil {
		return err
	}
	if o.which.Objects, err = session.ParseObjects(mapper, args); err != nil {
		return err
	}
	if !o.which.Named() {
		return nil
	}
	if o.all || o.selector != "" {
		return errors.New("a resource cannot be retrieved by name across all namespaces, or with a selector")
	}
	return nil
}

func (o *statusOptions) Run(ctx context.Context) error {
	v, err := o.View(ctx, o.all)
	if err != nil {
		return err
	}
	if o.ofSources() {
		return o.spreads(ctx, v)
	}
	if o.watch || o.wait {
		return o.follow(ctx, v)
	}
	list, err := v.Status(ctx, o.which)
	if err != nil {
		return err
	}
	return o.show(list)
}

// ofSources reports whether sources are named, and not workloads.
func (o *statusOptions) ofSources() bool {
	return slices.ContainsFunc(o.which.Objects, func(object view.Object) bool {
		_, is := object.Source()
		return is
	})
}

func (o *statusOptions) show(list *view.StatusList) error {
	o.PrintNotes(list.Notes)
	if len(list.Items) == 0 && o.IsTable() {
		_, _ = fmt.Fprintf(o.ErrOut, "No workloads that confrev follows found%s.\n", o.where())
		return nil
	}
	if err := o.Print(o.Out, list, statusTable(list), o.all); err != nil {
		return err
	}
	if o.IsTable() {
		o.PrintNotes(unusedChanges(list))
	}
	if list.Done() {
		return nil
	}
	return session.ExitStatus{Status: statusOf(list)}
}

// follow shows what changes, or waits until there is nothing left to do, by watching.
func (o *statusOptions) follow(ctx context.Context, v *view.View) error {
	if o.timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, o.timeout)
		defer stop()
	}
	var last *view.StatusList
	err := v.Follow(ctx, o.which, o.wait, func(list *view.StatusList) (bool, error) {
		before := last
		last = list
		if o.wait && len(list.Items) == 0 {
			return false, o.nothing()
		}
		if o.wait {
			return list.Done() || list.NeedsAction(), nil
		}
		return false, o.redraw(before, list)
	})
	return o.end(ctx, last, err)
}

// nothing returns the error of waiting for no workload at all: a pipeline must not pass because of a misspelled selector.
func (o *statusOptions) nothing() error {
	with := ""
	if o.selector != "" {
		with = fmt.Sprintf(" with the labels %q", o.selector)
	}
	return fmt.Errorf("nothing to wait for: no workload%s that confrev follows was found%s", with, o.where())
}

func (o *statusOptions) end(ctx context.Context, last *view.StatusList, err error) error {
	switch {
	case timedOut(ctx, err) && last != nil:
		left := listed(last, func(w view.WorkloadStatus) bool { return !w.State.Done() })
		return session.ExitStatus{Status: statusOf(last), Err: fmt.Errorf("timed out after %s: %s", o.timeout, left)}
	case err != nil || last == nil:
		return err
	}
	err = o.show(last)
	if status, ended := errors.AsType[session.ExitStatus](err); ended && o.wait {
		status.Err = fmt.Errorf("%s; this does not end without action", listed(last, func(w view.WorkloadStatus) bool { return w.NeedsAction() }))
		return status
	}
	return err
}

// timedOut reports whether a wait ended because its time was over. One that reached its end at that moment has no error.
func timedOut(ctx context.Context, err error) bool {
	return err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// redraw draws a list again on a terminal, and elsewhere prints the rows that changed.
func (o *statusOptions) redraw(before, list *view.StatusList) error {
	table := statusTable(list)
	if !o.IsTable() {
		return o.Print(o.Out, list, table, o.all)
	}
	if printer.Terminal(o.Out) {
		if err := o.clear(); err != nil {
			return err
		}
		return o.PrintTable(o.Out, table, o.all)
	}
	if before != nil {
		known := map[string]bool{}
		for _, r := range statusTable(before).Rows {
			known[rowKey(r)] = true
		}
		table.Rows = slices.DeleteFunc(table.Rows, func(r metav1.TableRow) bool { return known[rowKey(r)] })
		o.NoHeaders = true
	}
	if len(table.Rows) == 0 {
		return nil
	}
	return o.PrintTable(o.Out, table, o.all)
}

// rowKey distinguishes a row from all others that are printed, also from those of other namespaces.
func rowKey(r metav1.TableRow) string {
	return fmt.Sprint(r.Object.Object.(*metav1.PartialObjectMetadata).Namespace, r.Cells)
}

// clear clears the screen of a terminal.
func (o *statusOptions) clear() error {
	_, err := fmt.Fprint(printer.Raw(o.Out), "\x1b[H\x1b[2J")
	return err
}

func (o *statusOptions) where() string {
	if o.all {
		return ""
	}
	return " in " + o.Namespace() + " namespace"
}

// statusOf returns the exit status of what is not rolled out.
func statusOf(list *view.StatusList) int {
	if list.Failed() {
		return statusFailed
	}
	return statusNotYet
}

// shownLeft is how many workloads an error names: it is one line.
const shownLeft = 5

// listed names the workloads of some kind, with why.
func listed(list *view.StatusList, chosen func(view.WorkloadStatus) bool) string {
	var all []string
	for _, item := range list.Items {
		if chosen(item) {
			all = append(all, strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", item.Workload, item.State, item.Message), ": "))
		}
	}
	return strings.Join(first(all, shownLeft, "and %d more"), "; ")
}

func statusTable(list *view.StatusList) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: printer.Columns(
		[]string{"Workload", "Source", "Pinned", "Current", printer.StateColumn, "Pods"}, "Mode", "Revision", "Message")}
	for _, w := range list.Items {
		about := w.Metadata()
		if len(w.Sources) == 0 {
			table.Rows = append(table.Rows, printer.Row(about, w.Workload, "<none>", "-", "-", string(w.State), "-", w.Mode, "-", printer.OrDash(w.Message)))
		}
		for _, s := range w.Sources {
			table.Rows = append(table.Rows, printer.Row(about, w.Workload, s.Source, number(s.Pinned), number(s.Current), string(s.State),
				podsText(s.Pods), w.Mode, name(s.Pinned), printer.OrDash(s.Remark())))
		}
	}
	return table
}

func number(n *view.RevisionName) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(n.Number)
}

func name(n *view.RevisionName) string {
	if n == nil {
		return "-"
	}
	return n.Name
}

// podsText returns counts of pods: "2@4,1@3".
func podsText(counts []view.PodCount) string {
	var texts []string
	for _, c := range counts {
		carried := "live"
		if c.Revision != nil {
			carried = number(c.Revision)
		}
		texts = append(texts, fmt.Sprintf("%d@%s", c.Count, carried))
	}
	return printer.OrDash(strings.Join(texts, ","))
}

// unusedChanges returns the sources of which only keys have changed that a workload does not use: its numbers differ, and nothing is wrong.
func unusedChanges(list *view.StatusList) []string {
	var notes []string
	for _, w := range list.Items {
		for _, s := range w.Sources {
			if s.Message == view.OnlyUnused {
				notes = append(notes, fmt.Sprintf("%s stays on revision %s of %s: %s", w.Workload, number(s.Pinned), s.Source, view.OnlyUnused))
			}
		}
	}
	return first(notes, shownLeft, "and %d more; -o wide shows them")
}
