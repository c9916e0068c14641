package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"confrev.io/confrev/internal/controller"
	"confrev.io/confrev/internal/snapshot"
	"confrev.io/confrev/internal/workload"
)

// statusNotYet is the exit status of what is not, or not yet, as it should be.
const statusNotYet = 3

// statusFailed is the exit status of a rollout that failed.
const statusFailed = 4

const statusLong = `Show which revision of each source every workload is pinned to, and how far it is with the present one.

 *  RolledOut: pinned to the present content, and all pods carry it.
 *  Advancing: to be pinned to it, or being rolled out.
 *  Held: rolled back. It stays until the source changes, a deploy changes code that was undone, or it is resumed.
 *  Waiting: a person decides: the annotation confrev.io/advance, a partition or OnDelete, or a step of an Argo Rollout.
 *  Paused: the workload is paused.
 *  Failed: its controller reports that the rollout failed: the progress deadline of a Deployment, a degraded Argo Rollout.
 *  Missing: the source, or a key that a container requires, does not exist.
 *  NotResolved: its controller has rolled it out, yet some pods do not carry the pins.
 *  Unknown: you may not see what it takes to tell.
 *  Untracked: confrev does not follow it.

PODS has how many pods carry which number: "2@4,1@3". A pod that carries no pin reads the source itself: "1@live".

Workloads that confrev does not follow are shown only when they are named. Exit status: 0 when all that is shown is rolled out, 4
when a rollout failed, 3 when something else is not rolled out, 1 when there was an error.

With --wait, the command ends as soon as the present content of all sources has reached every pod. It ends with status 3 when the
time is over, or when a workload is Missing, Held, Waiting or Paused, and with status 4 when one Failed: those do not end by
themselves. Without any workload to wait for, it fails.`

const statusExample = `
		# All workloads of the namespace that confrev follows
		kubectl confrev status

		# One Deployment, and all workloads with a label
		kubectl confrev status deployment/web
		kubectl confrev status -l app=web

		# The whole cluster, as JSON
		kubectl confrev status -A -o json

		# In a pipeline: apply, then wait until every pod has it
		kubectl confrev status deployment/web --wait --timeout=5m`

type statusOptions struct {
	*plugin
	output
	all         bool
	selector    string
	watch, wait bool
	timeout     time.Duration
	chosen      labels.Selector
	arguments   []argument
}

func newStatus(p *plugin) *cobra.Command {
	o := &statusOptions{plugin: p}
	cmd := &cobra.Command{
		Use:               "status [TYPE/NAME | TYPE NAME]...",
		Short:             "Show what workloads are pinned to, and whether it has reached their pods",
		Long:              statusLong,
		Example:           examples(statusExample),
		ValidArgsFunction: p.completeWorkload,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.add(cmd)
	addAll(cmd, &o.all)
	flags := cmd.Flags()
	flags.StringVarP(&o.selector, "selector", "l", "", "Selector (label query) of workloads, as kubectl get takes it.")
	flags.BoolVarP(&o.watch, "watch", "w", false, "Show again what changes, until interrupted.")
	flags.BoolVar(&o.wait, "wait", false, "Wait until all is rolled out.")
	flags.DurationVar(&o.timeout, "timeout", 0, "How long to --wait at the most; 0 for ever.")
	cmd.MarkFlagsMutuallyExclusive("watch", "wait")
	return cmd
}

func (o *statusOptions) complete(args []string) (err error) {
	if o.chosen, err = labels.Parse(o.selector); err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	if o.timeout != 0 && !o.wait {
		return errors.New("--timeout is for --wait")
	}
	if err := o.check(); err != nil || len(args) == 0 {
		return err
	}
	mapper, err := o.factory.ToRESTMapper()
	if err != nil {
		return err
	}
	if o.arguments, err = parseArguments(mapper, args); err != nil {
		return err
	}
	if o.arguments[0].name == "" {
		return nil
	}
	if o.all || o.selector != "" {
		return errors.New("a resource cannot be retrieved by name across all namespaces, or with a selector")
	}
	return nil
}

func (o *statusOptions) run(ctx context.Context, args []string) error {
	if err := o.complete(args); err != nil {
		return err
	}
	s, err := o.look(ctx, o.all)
	if err != nil {
		return err
	}
	if o.watch || o.wait {
		return o.follow(ctx, s)
	}
	report, err := o.report(ctx, s)
	if err == nil && report.inferred {
		// What is listed after the holders were seen has the changes that they come from.
		if err = s.take(ctx); err == nil {
			report, err = o.report(ctx, s)
		}
	}
	if err != nil {
		return err
	}
	return o.show(report)
}

// show prints a report and gives the exit status.
func (o *statusOptions) show(report *statusReport) error {
	o.printNotes(report.notes)
	if len(report.list.Items) == 0 && o.isTable() {
		_, _ = fmt.Fprintf(o.ErrOut, "No workloads that confrev follows found%s.\n", report.where())
		return nil
	}
	if err := o.print(o.Out, report, o.all); err != nil {
		return err
	}
	if o.isTable() {
		o.printNotes(report.since())
	}
	if report.done() {
		return nil
	}
	return exitStatus{status: report.status()}
}

// report looks at the workloads that were asked for.
func (o *statusOptions) report(ctx context.Context, s *scope) (*statusReport, error) {
	looks, err := o.choose(s)
	if err != nil {
		return nil, err
	}
	report := &statusReport{notes: s.notes, namespace: s.namespace, all: o.all}
	for _, l := range looks {
		look, err := s.Look(ctx, l.Kind, l.Workload, false)
		if apierrors.IsForbidden(err) {
			report.add(s, look, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if look.Follows || o.named() {
			report.add(s, look, nil)
		}
	}
	report.sort()
	return report, nil
}

func (o *statusOptions) named() bool { return len(o.arguments) > 0 && o.arguments[0].name != "" }

// choose gives the workloads that were asked for.
func (o *statusOptions) choose(s *scope) ([]controller.Look, error) {
	if !o.named() {
		return slices.DeleteFunc(s.Workloads(), func(l controller.Look) bool {
			ofKind := len(o.arguments) == 0 || slices.ContainsFunc(o.arguments, func(a argument) bool { return a.GroupKind == l.Kind.GVK.GroupKind() })
			return !ofKind || !o.chosen.Matches(labels.Set(l.Workload.GetLabels()))
		}), nil
	}
	var looks []controller.Look
	for _, a := range o.arguments {
		look, err := s.find(a)
		if err != nil {
			return nil, err
		}
		looks = append(looks, look)
	}
	return looks, nil
}

// find finds a workload by its name: of one that refers to another, the one that has the template.
func (s *scope) find(a argument) (controller.Look, error) {
	i := slices.IndexFunc(s.Kinds, func(k workload.Kind) bool { return k.GVK.GroupKind() == a.GroupKind })
	if i < 0 {
		return controller.Look{}, fmt.Errorf("%s are not a kind of workload that confrev handles", a.resource)
	}
	kind := s.Kinds[i]
	if err := s.Snapshot.Refused(kind.GVK); err != nil {
		return controller.Look{}, err
	}
	obj := s.Workload(kind, types.NamespacedName{Namespace: s.namespace, Name: a.name})
	if obj == nil {
		return controller.Look{}, apierrors.NewNotFound(a.resource, a.name)
	}
	if named, name, refers := kind.WorkloadRef(obj); refers {
		return s.find(argument{GroupKind: named, resource: a.resource, name: name})
	}
	return controller.Look{Kind: kind, Workload: obj}, nil
}

// follow shows what changes, or waits until there is nothing left to do, by watching.
func (o *statusOptions) follow(ctx context.Context, s *scope) error {
	if o.timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, o.timeout)
		defer stop()
	}
	var last *statusReport
	confirmed := false
	step := func() (bool, error) {
		report, err := o.report(ctx, s)
		if err != nil {
			return false, err
		}
		doubtful := report.inferred || o.wait && report.missing()
		if doubtful && !confirmed {
			confirmed = true
			return false, snapshot.ErrStale
		}
		confirmed = doubtful
		before := last
		last = report
		if o.wait && len(report.list.Items) == 0 {
			return false, o.nothing(report)
		}
		if o.wait {
			return report.done() || report.stays(), nil
		}
		return false, o.redraw(before, report)
	}
	for {
		done, err := step()
		if err == nil && !done {
			err = s.Snapshot.Follow(ctx, s.connection, step)
		}
		if errors.Is(err, snapshot.ErrStale) {
			if err = s.take(ctx); err == nil {
				continue
			}
		}
		return o.end(ctx, last, err)
	}
}

// nothing is the error of waiting for no workload at all: a pipeline must not pass because of a misspelled selector.
func (o *statusOptions) nothing(report *statusReport) error {
	with := ""
	if o.selector != "" {
		with = fmt.Sprintf(" with the labels %q", o.selector)
	}
	return fmt.Errorf("nothing to wait for: no workload%s that confrev follows was found%s", with, report.where())
}

// end says how it came out.
func (o *statusOptions) end(ctx context.Context, last *statusReport, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && last != nil:
		return exitStatus{last.status(), fmt.Errorf("timed out after %s: %s", o.timeout, last.left())}
	case err != nil || last == nil:
		return err
	}
	err = o.show(last)
	if status, ended := errors.AsType[exitStatus](err); ended && o.wait {
		status.err = fmt.Errorf("%s; that does not end by itself", last.listed(func(w WorkloadStatus) bool { return w.stays() }))
		return status
	}
	return err
}

// redraw shows a report on a terminal anew, elsewhere the rows that changed.
func (o *statusOptions) redraw(before, report *statusReport) error {
	if !o.isTable() {
		return o.print(o.Out, report, o.all)
	}
	if terminal(o.Out) {
		if _, err := fmt.Fprint(raw(o.Out), "\x1b[H\x1b[2J"); err != nil {
			return err
		}
		return o.printTable(o.Out, report.table(), o.all)
	}
	table := report.table()
	if before != nil {
		known := map[string]bool{}
		for _, r := range before.table().Rows {
			known[fmt.Sprint(r.Cells)] = true
		}
		table.Rows = slices.DeleteFunc(table.Rows, func(r metav1.TableRow) bool { return known[fmt.Sprint(r.Cells)] })
		o.noHeaders = true
	}
	if len(table.Rows) == 0 {
		return nil
	}
	return o.printTable(o.Out, table, o.all)
}

// where says where was looked.
func (r *statusReport) where() string {
	if r.all {
		return ""
	}
	return " in " + r.namespace + " namespace"
}

// shownLeft is how many workloads an error names: it is one line.
const shownLeft = 5

// left says what is not rolled out.
func (r *statusReport) left() string {
	return r.listed(func(w WorkloadStatus) bool { return !w.State.done() })
}

// listed names the workloads of some kind, with why.
func (r *statusReport) listed(chosen func(WorkloadStatus) bool) string {
	var all []string
	for _, item := range r.list.Items {
		if chosen(item) {
			all = append(all, strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", item.Workload, item.State, item.Message), ": "))
		}
	}
	if more := len(all) - shownLeft; more > 0 {
		all = append(all[:shownLeft], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, "; ")
}
