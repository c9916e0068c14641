package inspect

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"confrev.io/confrev/internal/audit"
	"confrev.io/confrev/internal/audit/collect"
	"confrev.io/confrev/internal/installation"
	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/plugin/session"
)

const auditLong = `Report what users of a cluster may not know about their configuration. It needs no installation of confrev, only reads, and of
ConfigMaps and Secrets reads nothing except metadata.

 *  StalePods: pods that started before the last recorded change to what they read at their start.
 *  SourceMissing: pods that run with what no longer exists, and would not start again.
 *  SharedDuringRollout: rollouts in progress whose old and new pods read the same object.
 *  NothingRestarts: workloads that no change to their configuration restarts.
 *  FilesChanged: pods whose mounted files were updated while they ran: the program may not have noticed.
 *  StalenessUnknown: pods of which it cannot be known whether they have the present content.
 *  UnusedCopies: old copies with hashed or random names that nothing seems to use.
 *  ChecksumAnnotation, ReloaderAnnotation, WaveAnnotation, HashedNames: what other tools do, and which mode of confrev fits.

A pod that is not reported is one for which no change is recorded since it started. That is no proof that it is up to date.

Exit status: 0 when the audit was made, 1 when it failed. With --exit-code: 3 when there is a finding of severity Warning, 4 when there
is none, but something cannot be known (severity Unknown), 0 otherwise.`

const auditExample = `
		# The namespace of the context
		kubectl confrev audit

		# The whole cluster, as a page to share
		kubectl confrev audit -A -o markdown

		# In CI: fail if there is something to act on
		kubectl confrev audit --exit-code`

type auditOptions struct {
	*session.Session
	printer.Output
	all, exitCode bool
	margin        time.Duration
}

// NewAudit returns the verb that looks at a cluster which may never have seen confrev.
func NewAudit(p *session.Session) *cobra.Command {
	o := &auditOptions{Session: p}
	o.Markdown = true
	cmd := &cobra.Command{
		Use:               "audit",
		Short:             "Report stale pods and other risks of configuration changes, on any cluster",
		Long:              auditLong,
		Example:           session.Examples(auditExample),
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.Add(cmd)
	session.AddAll(cmd, &o.all)
	cmd.Flags().BoolVar(&o.exitCode, "exit-code", false, "Exit with status 3 if there is a warning, and with 4 if something cannot be known.")
	cmd.Flags().DurationVar(&o.margin, "margin", audit.DefaultMargin,
		"The length of time after a change in which a container may still have started with the old content. It covers the delays of kubelets and differences between clocks.")
	return session.Command(cmd, o)
}

func (o *auditOptions) Fill(*cobra.Command, []string) error {
	if o.margin < 0 {
		return fmt.Errorf("--margin: %s is less than zero", o.margin)
	}
	return o.Check()
}

func (o *auditOptions) Run(ctx context.Context) error {
	c, err := o.Connect()
	if err != nil {
		return err
	}
	options := collect.Options{Namespace: c.Namespace, Margin: o.margin}
	if o.all {
		options.Namespace = ""
	}
	installed, err := installation.Find(ctx, c, o.ControllerNamespace, options.Namespace)
	if err != nil {
		return err
	}
	options.Kinds, options.Controller = installed.Kinds(), installed.Namespace
	if printer.Terminal(o.ErrOut) {
		options.Progress = o.progress()
	}
	found, err := collect.Run(ctx, c, options)
	if err != nil {
		return err
	}
	if err := o.show(found); err != nil {
		return err
	}
	return o.end(found)
}

// progressEvery is how often a person who waits sees a line.
const progressEvery = 2 * time.Second

// progress returns what shows a person who waits how much has been read.
func (o *auditOptions) progress() func(kind string, n int) {
	var mu sync.Mutex
	last := time.Now()
	return func(kind string, n int) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) < progressEvery {
			return
		}
		last = time.Now()
		_, _ = fmt.Fprintf(o.ErrOut, "reading: %d %s so far\n", n, kind)
	}
}

// end returns the exit status.
func (o *auditOptions) end(found *collect.Audit) error {
	worst := found.Worst()
	return session.ExitCode(o.exitCode, worst == audit.Warning, worst == audit.Unknown || len(found.Notes) > 0)
}
