package change

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"confrev.io/confrev/internal/fleet"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/internal/waiting"
)

const resumeLong = `End a hold: roll out the present content of the sources of a workload that was rolled back. Or, with a source: let a change continue
that was stopped ("kubectl confrev stop"), or that confrev stopped because workloads failed with it. The workloads that confrev rolled back
take it again; those that someone else rolled back stay.

A workload whose configuration was rolled back stays where it is until the source changes. This pins the present content
instead, which is one rollout with the image that the workload has. Without SOURCE, for all sources that are held.`

const resumeExample = `# Roll out the present configuration
kubectl confrev resume deployment/web

# Only with that of one source, and see first what would be written
kubectl confrev resume deployment/web configmap/app --dry-run=server -o yaml

# Let a change continue that was stopped
kubectl confrev resume configmap/app`

// NewResume returns the verb that ends holds.
func NewResume(p *session.Session) *cobra.Command {
	return newForward(p, "resume WORKLOAD [SOURCE...] | SOURCE", "End a hold or a stop, and roll out the present content", resumeLong, resumeExample, "resumed",
		&steering{edit: resume}, plan.Held)
}

const advanceLong = `Roll out what has changed, although it waits: for approval or a deploy (confrev.io/advance), for the end of a freeze
(confrev.io/freeze-until), for a window (confrev.io/window), for its turn (confrev.io/steps, confrev.io/max-rolling), or because no controller
runs. Without SOURCE, for all sources that wait.

With a source and --past-wave: let the first waves of the change to it count as passed. With --past-stage: let the change begin without
waiting for another namespace (confrev.io/after).`

const advanceExample = `# Roll out the changes that wait
kubectl confrev advance deployment/web

# Only those of one source
kubectl confrev advance deployment/web configmap/app

# The first wave was checked by hand: begin the second
kubectl confrev advance configmap/app --past-wave 1

# There is nothing to test in the namespace that comes first
kubectl confrev advance configmap/app --past-stage`

// NewAdvance returns the verb that moves waiting workloads on.
func NewAdvance(p *session.Session) *cobra.Command {
	var waves int
	var stage bool
	onSource := &steering{}
	onSource.edit = func(s *fleet.Survey, before map[string]string) (map[string]any, string, error) {
		if stage {
			return pastStage(s, before)
		}
		return pastWave(waves)(s, before)
	}
	cmd := newForward(p, "advance WORKLOAD [SOURCE...] | SOURCE --past-wave N | SOURCE --past-stage", "Roll out changes that wait", advanceLong, advanceExample, "advanced",
		onSource, plan.Waiting, plan.Advanced, plan.Pinned)
	cmd.Flags().IntVar(&waves, pastWaveFlag, 0, "Let so many waves of a change to a source count as passed.")
	cmd.Flags().BoolVar(&stage, pastStageFlag, false, "Let a change to a source begin although the namespace that comes before has not vouched for it.")
	cmd.MarkFlagsMutuallyExclusive(pastWaveFlag, pastStageFlag)
	return cmd
}

// The flags of "advance SOURCE".
const (
	pastWaveFlag  = "past-wave"
	pastStageFlag = "past-stage"
)

// forward moves the sources with some verdicts to their present content.
type forward struct {
	onWorkload
	verdicts []plan.Verdict
}

func newForward(p *session.Session, use, short, long, example, done string, onSource *steering, verdicts ...plan.Verdict) *cobra.Command {
	base, cmd := newOnWorkload(p, use, short, long, example, done)
	onSource.writing = base.writing
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return p.CompleteSourcesAndWorkloads(cmd, args, toComplete)
		}
		return p.CompleteWorkloadThenSources(cmd, args, toComplete)
	}
	return session.Command(cmd, &orSource{Verb: &forward{base, verdicts}, onSource: onSource, sourceOnly: []string{pastWaveFlag, pastStageFlag}})
}

func (f *forward) Run(ctx context.Context) error {
	return f.steer(ctx, func(t session.Target, look rollout.Assessment) (move, error) {
		return toCurrent(t, look, f.sources, f.verdicts)
	})
}

// toCurrent moves the sources with some verdicts to their present content, and says of the others why not.
func toCurrent(t session.Target, look rollout.Assessment, sources []pin.Source, verdicts []plan.Verdict) (move, error) {
	all, err := chosen(t, look, sources)
	if err != nil {
		return move{}, err
	}
	var moving move
	for _, d := range all {
		if slices.Contains(verdicts, d.Verdict) && d.Wait.Reason != waiting.Stopped {
			d.To = d.Current
			moving.decisions = append(moving.decisions, d)
			continue
		}
		moving.why = append(moving.why, fmt.Sprintf("%s: %s", d.Source, whyUnmoved(t, d)))
	}
	return moving, nil
}

// whyUnmoved returns why a source's pin does not move forward by hand.
func whyUnmoved(t session.Target, d plan.Decision) string {
	switch d.Verdict {
	case plan.InSync:
		return fmt.Sprintf("has its present content already (revision %d)", d.From.Number)
	case plan.Held:
		return fmt.Sprintf("%s; to continue: kubectl confrev resume %s%s", view.ExplainVerdict(d), t, t.Namespaced())
	case plan.Waiting:
		if d.Wait.Reason == waiting.Stopped {
			return fmt.Sprintf("%s; to continue: kubectl confrev resume %s%s", view.ExplainVerdict(d), d.Source, t.Namespaced())
		}
		return fmt.Sprintf("%s; to roll it out: kubectl confrev advance %s%s", view.ExplainVerdict(d), t, t.Namespaced())
	case plan.Pinned, plan.Advanced:
		return "is about to be rolled out by the controller"
	}
	return view.ExplainVerdict(d)
}
