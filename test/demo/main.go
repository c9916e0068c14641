// Command demo tells confrev's whole story on a real control plane of hack/cluster, shows with kubectl what happens, and
// checks each thing that it says.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// options are what the command line says.
type options struct {
	name string
	keep bool
}

// errReported stands for what went wrong and was shown already.
var errReported = errors.New("the demo failed")

func main() { os.Exit(run()) }

// run runs the command and gives the exit status.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newCommand().ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		return 130
	case !errors.Is(err, errReported):
		fmt.Fprintln(os.Stderr, "demo:", err)
	}
	return 1
}

const long = `Tells confrev's whole story on a real Kubernetes control plane that runs on this machine: a ConfigMap that rolls out,
and back, like an image. kubectl shows each step, and each claim is checked; one that does not hold ends the demo with
status 1.

Builds what is missing (the first time some 10 minutes), starts the cluster if it does not run, and leaves the cluster
and confrev running for you to play with. A demo that ran before in the same cluster is replaced.`

// tale is one of the stories that the demo can tell.
type tale struct {
	// verb is the word on the command line; the first tale has none.
	verb []string
	// about goes on after a sentence on the cluster.
	about string
	// rollouts tells that Argo Rollouts is needed.
	rollouts bool
	// flags are further ones of confrev.
	flags []string
	tell  func(*story) error
	// hints are commands to play with in the end.
	hints string
}

func newCommand() *cobra.Command {
	var o options
	cmd := newTaleCommand(&o, webTale)
	cmd.Use, cmd.Short, cmd.Long = "demo", "confrev's whole story on a real control plane", long
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.PersistentFlags().StringVar(&o.name, "name", "confrev", "`name` of the cluster")
	canary := newTaleCommand(&o, canaryTale)
	canary.Use, canary.Short = canaryTale.verb[0], "The story of a faulty canary on the real Argo Rollouts controller, with revisions and with mode attach"
	cmd.AddCommand(canary, &cobra.Command{
		Use:   "down",
		Short: "Stop the confrev that the demo started, and remove the cluster",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return down(cmd.Context(), o.name) },
	})
	return cmd
}

func newTaleCommand(o *options, t tale) *cobra.Command {
	cmd := &cobra.Command{
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return demo(cmd.Context(), *o, t) },
	}
	cmd.Flags().BoolVar(&o.keep, "keep", true, "leave the cluster and confrev running; with false, both go when all claims held")
	return cmd
}

// demo sets up, tells a tale and says how to go on.
func demo(ctx context.Context, o options, t tale) error {
	p, unlock, err := claimPlace(o.name)
	if err != nil {
		return err
	}
	defer unlock()
	out := newPrinter(os.Stdout)
	header(out, o, t)
	s := &story{ctx: ctx, out: out, place: p, began: time.Now()}
	err = s.setUp(t)
	if err == nil {
		s.createOther()
		err = t.tell(s)
	}
	switch {
	case ctx.Err() != nil:
		interrupted(out, p, t)
		return ctx.Err()
	case err != nil:
		s.report(err)
		return errReported
	}
	if !o.keep {
		return tearDown(ctx, p)
	}
	s.farewell(t.hints)
	return nil
}

func header(out *printer, o options, t tale) {
	out.title("confrev: configuration that rolls out, and back, like an image")
	out.say(`A real Kubernetes control plane on this machine (cluster %q; KWOK plays the nodes) gets the chart by Helm,
then %s
on a machine that never did it, Kubernetes itself is built or downloaded first: up to 10 minutes.`, o.name, t.about)
	out.blank()
}

// interrupted says after ^C what is left.
func interrupted(out *printer, p place, t tale) {
	state := "confrev does not run."
	if pid := p.livePid(); pid != 0 {
		state = fmt.Sprintf("confrev goes on running (pid %d, log %s).", pid, p.log())
	}
	out.blank()
	out.say(`Interrupted. The cluster is left as it is; %s
Start over: %s. Remove everything: %s.`, state, p.command(t.verb...), p.command("down"))
}

// down is the verb that removes everything.
func down(ctx context.Context, name string) error {
	p, unlock, err := claimPlace(name)
	if err != nil {
		return err
	}
	defer unlock()
	return tearDown(ctx, p)
}
