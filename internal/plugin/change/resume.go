package change

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/view"
)

const resumeLong = `End a hold: roll out the present content of the sources of a workload that was rolled back.

A workload whose configuration was rolled back stays where it is until the source changes. This pins the present content
instead, which is one rollout with the image that the workload has. Without SOURCE, for all sources that are held.`

const resumeExample = `# Roll out the present configuration
kubectl confrev resume deployment/web

# Only with that of one source, and see first what would be written
kubectl confrev resume deployment/web configmap/app --dry-run=server -o yaml`

// NewResume returns the verb that ends holds.
func NewResume(p *session.Session) *cobra.Command {
	return newForward(p, "resume WORKLOAD [SOURCE...]", "End a hold, and roll out the present content of the sources", resumeLong, resumeExample, "resumed", plan.Held)
}

const advanceLong = `Roll out what has changed, although it waits: for approval or a deploy (confrev.io/advance), for the end of a freeze
(confrev.io/freeze-until), for a window (confrev.io/window), or because no controller runs. Without SOURCE, for all sources that wait.`

const advanceExample = `# Roll out the changes that wait
kubectl confrev advance deployment/web

# Only those of one source
kubectl confrev advance deployment/web configmap/app`

// NewAdvance returns the verb that moves waiting workloads on.
func NewAdvance(p *session.Session) *cobra.Command {
	return newForward(p, "advance WORKLOAD [SOURCE...]", "Roll out changes that wait", advanceLong, advanceExample, "advanced",
		plan.Waiting, plan.Advanced, plan.Pinned)
}

// forward moves the sources with some verdicts to their present content.
type forward struct {
	onWorkload
	verdicts []plan.Verdict
}

func newForward(p *session.Session, use, short, long, example, done string, verdicts ...plan.Verdict) *cobra.Command {
	base, cmd := newOnWorkload(p, use, short, long, example, done)
	return session.Command(cmd, &forward{base, verdicts})
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
		if slices.Contains(verdicts, d.Verdict) {
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
		return fmt.Sprintf("%s; to continue: kubectl confrev resume %s", view.ExplainVerdict(d), t)
	case plan.Waiting:
		return fmt.Sprintf("%s; to roll it out: kubectl confrev advance %s", view.ExplainVerdict(d), t)
	case plan.Pinned, plan.Advanced:
		return "is about to be rolled out by the controller"
	}
	return view.ExplainVerdict(d)
}
