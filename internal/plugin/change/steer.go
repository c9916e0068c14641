package change

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/gate"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/view"
)

// writing is what all verbs share that change an object: kubectl's own flags for how to write and what to print.
type writing struct {
	*session.Session
	print        *genericclioptions.PrintFlags
	fieldManager string
	dryRun       cmdutil.DryRunStrategy
	// fromInput is true for a verb whose objects are made from its command line.
	fromInput bool
}

// fieldManager is the default of --field-manager. It must not begin with "kubectl": Flux removes what such managers wrote from the objects that it
// applies, so a change that a person stopped would continue with its next reconciliation.
const fieldManager = "confrev-plugin"

// newWriting adds the flags to a command; done is what is said of an object that was written: "rolled back".
func newWriting(p *session.Session, cmd *cobra.Command, done string) *writing {
	w := &writing{Session: p, print: genericclioptions.NewPrintFlags(done).WithTypeSetter(clientgoscheme.Scheme)}
	w.print.AddFlags(cmd)
	cmdutil.AddDryRunFlag(cmd)
	cmdutil.AddFieldManagerFlagVar(cmd, &w.fieldManager, fieldManager)
	return w
}

func (w *writing) complete(cmd *cobra.Command) (err error) {
	w.dryRun, err = cmdutil.GetDryRunStrategy(cmd)
	cmdutil.PrintFlagsWithDryRunStrategy(w.print, w.dryRun)
	return err
}

// onWorkload is what all verbs share that change a workload and take WORKLOAD [SOURCE...].
type onWorkload struct {
	*writing
	workload string
	sources  []pin.Source
}

// newOnWorkload makes such a verb and its command; done is as in newWriting.
func newOnWorkload(p *session.Session, use, short, long, example, done string) (onWorkload, *cobra.Command) {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: session.Examples(example),
		DisableFlagsInUseLine: true, ValidArgsFunction: p.CompleteWorkloadThenSources,
	}
	return onWorkload{writing: newWriting(p, cmd, done)}, cmd
}

func (o *onWorkload) Fill(cmd *cobra.Command, args []string) (err error) {
	var rest []string
	if o.workload, rest, err = session.SplitArgs(args); err != nil {
		return err
	}
	if o.sources, err = session.ParseSources(rest); err != nil {
		return err
	}
	return o.complete(cmd)
}

// withTarget connects, and lets a verb decide and write for its workload, as onTarget does.
func (o *onWorkload) withTarget(ctx context.Context, do func(context.Context, *session.Connection, session.Target) error) error {
	c, err := o.Connect()
	if err != nil {
		return err
	}
	return o.onTarget(ctx, c, o.workload, func(found session.Target) error { return do(ctx, c, found) })
}

// onTarget reads a workload, decides and writes, and does so again if an object has changed since it was read.
func (w *writing) onTarget(ctx context.Context, c *session.Connection, name string, do func(session.Target) error) error {
	return untilUnchanged(func() error {
		found, err := w.FindTarget(ctx, c, name)
		if err != nil {
			return err
		}
		return do(found)
	})
}

// attempts take some three seconds: a rollout changes its workload several times within that time.
var attempts = wait.Backoff{Steps: 7, Duration: 20 * time.Millisecond, Factor: 2.5, Jitter: 0.1}

// untilUnchanged decides and writes again if the objects have changed since the decision.
func untilUnchanged(decideAndWrite func() error) error {
	changed := func(err error) bool {
		return apierrors.IsConflict(err) || revision.IsChanged(err) || metadata.TestFailed(err)
	}
	err := retry.OnError(attempts, changed, decideAndWrite)
	if changed(err) {
		return fmt.Errorf("it keeps changing, so nothing was done; try again: %w", err)
	}
	return err
}

// serverDryRun returns the option of a write that the API server only tries, if the flags ask for that.
func (w *writing) serverDryRun() []string {
	if w.dryRun == cmdutil.DryRunServer {
		return []string{metav1.DryRunAll}
	}
	return nil
}

func (w *writing) say(notes ...string) error {
	for _, note := range notes {
		if _, err := fmt.Fprintln(w.Out, "  "+printer.OneLine(note)); err != nil {
			return err
		}
	}
	return nil
}

// move is what a verb decides for a workload: which pins to move. With none, why.
type move struct {
	decisions []plan.Decision
	why       []string
}

// steer moves pins of the workload as a verb decides.
func (o *onWorkload) steer(ctx context.Context, decide func(session.Target, rollout.Assessment) (move, error)) error {
	return o.withTarget(ctx, func(ctx context.Context, c *session.Connection, found session.Target) error {
		planner, look, err := found.Assess(ctx, c)
		if err != nil {
			return err
		}
		moving, err := decide(found, look)
		if err != nil {
			return err
		}
		if len(moving.decisions) == 0 {
			return o.unchanged(look.Workload, moving.why...)
		}
		if err := resolvable(ctx, c, found, look, moving.decisions); err != nil {
			return err
		}
		steering := planner.Move(look, moving.decisions...)
		obj, err := o.write(ctx, &steering)
		if err != nil {
			return err
		}
		o.PrintNotes(slices.Concat(found.Installation.Notes(), yielded(planner)))
		return o.printed(obj, summary(found, look, moving.decisions, steering.After)...)
	})
}

func (w *writing) write(ctx context.Context, steering *rollout.Move) (client.Object, error) {
	if w.dryRun == cmdutil.DryRunClient {
		return steering.Preview()
	}
	if w.dryRun == cmdutil.DryRunNone {
		if err := steering.Prepare(ctx); err != nil {
			return nil, err
		}
	}
	return steering.Write(ctx, &client.PatchOptions{FieldManager: w.fieldManager, DryRun: w.serverDryRun()})
}

// yielded returns what was left to the controller.
func yielded(planner *view.Planner) []string {
	var notes []string
	for _, err := range planner.Yielded() {
		notes = append(notes, fmt.Sprintf("confrev's controller has to note on the revision that it is used, since you may not; "+
			"while none runs, it may be deleted with its other users: %v", err))
	}
	return notes
}

// resolvable refuses to move a pin that nothing would resolve, where the user may see that: the rollout would bring pods that
// read the source as it is.
func resolvable(ctx context.Context, c client.Reader, t session.Target, look rollout.Assessment, moved []plan.Decision) error {
	if look.Config.Injection != optin.Admission || !slices.ContainsFunc(moved, func(d plan.Decision) bool { return look.Pinned(d.Source) }) {
		return nil
	}
	resolved, err := gate.ResolvesPins(ctx, c)
	if resolved || apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("neither an admission policy *%[1]s with its binding nor a webhook of that name is there, so pins have no effect: new pods of %[2]s would read the "+
		"sources as they are; nothing was done. Install the chart, or put old content back: kubectl confrev undo %[2]s --restore-source%[3]s", gate.ResolvePins, t, t.Namespaced())
}

// summary returns what became of each source, and what follows.
func summary(t session.Target, look rollout.Assessment, moved []plan.Decision, after plan.Plan) []string {
	var notes, held []string
	for _, d := range moved {
		notes = append(notes, fmt.Sprintf("%s: %s", d.Source, movedText(look, d)))
		for _, next := range after.Decisions {
			if next.Source == d.Source && next.Verdict == plan.Held {
				held = append(held, d.Source.String())
			}
		}
	}
	if len(held) > 0 {
		notes = append(notes, fmt.Sprintf("held there until %s changes, or until: kubectl confrev resume %s%s",
			strings.Join(held, " or "), t, t.Namespaced()))
	}
	return append(notes, rollsOut(t, look.Workload))
}

func movedText(look rollout.Assessment, d plan.Decision) string {
	if slices.ContainsFunc(look.Hashes.Decisions, func(h plan.Decision) bool { return h.Source == d.Source }) {
		return "restarts for its present content"
	}
	if d.From == (pin.Pin{}) {
		return fmt.Sprintf("pinned to revision %d (%s)", d.To.Number, d.To.Revision)
	}
	return fmt.Sprintf("revision %d -> %d (%s)", d.From.Number, d.To.Number, d.To.Revision)
}

// rollsOut returns what the change of a template leads to.
func rollsOut(t session.Target, obj client.Object) string {
	switch {
	case t.Kind.Paused(obj):
		return fmt.Sprintf("%s is paused: it rolls out when it is resumed", t)
	case t.Kind.StartsJobs():
		return "the next Job starts with it; nothing is restarted"
	}
	return "rolls out now, with the image it has; to watch: kubectl confrev status " + t.String() + t.Namespaced()
}

// decision finds what the plan says of a source; an error says why there is nothing.
func decision(t session.Target, look rollout.Assessment, source pin.Source) (plan.Decision, error) {
	for _, d := range slices.Concat(look.Pins.Decisions, look.Hashes.Decisions) {
		if d.Source == source {
			return d, nil
		}
	}
	for _, use := range look.Uses {
		if use.Source == source && look.Hidden && source.Kind == pin.Secret {
			return plan.Decision{}, fmt.Errorf("%s: you may not list Secrets, so what is to become of %s is not known; get the right to list secrets", t, source)
		}
		if use.Source == source {
			return plan.Decision{}, fmt.Errorf("%s does not track %s; to begin: kubectl confrev track %s %s%s", t, source, t, source, t.Namespaced())
		}
	}
	return plan.Decision{}, fmt.Errorf("%s does not refer to %s", t, source)
}

// chosen returns the decisions on the source that the arguments name, or on all.
func chosen(t session.Target, look rollout.Assessment, sources []pin.Source) ([]plan.Decision, error) {
	if len(sources) == 0 {
		if !look.Follows {
			return nil, fmt.Errorf("%s tracks nothing; to begin: kubectl confrev track %s%s", t, t, t.Namespaced())
		}
		all := slices.Concat(look.Pins.Decisions, look.Hashes.Decisions)
		return all, unseen(t, look, all)
	}
	var all []plan.Decision
	for _, source := range sources {
		d, err := decision(t, look, source)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// unseen refuses to move all sources of a workload for a user who may not see all of them: those that are left out would stay.
func unseen(t session.Target, look rollout.Assessment, seen []plan.Decision) error {
	pinned := look.Template.Sources()
	i := slices.IndexFunc(pinned, func(s pin.Source) bool { return s.Kind == pin.Secret })
	if !look.Hidden || i < 0 {
		return nil
	}
	instead := "get the right to list secrets"
	if len(seen) > 0 {
		instead = fmt.Sprintf("name the sources to move, such as %s, or %s", seen[0].Source, instead)
	}
	return fmt.Errorf("%s: you may not list Secrets, so %s would stay as it is: %s", t, pinned[i], instead)
}
