package view

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/workload"
)

// Unanswered reports whether the workload webhook left something to do of a request that would make obj of old, or create it if old is
// nil, as a dry run shows it. The webhook changes nothing of what it has changed before, so what the same plan adds is what it missed:
// it is not there, does not answer, or does not do it for now.
func (p *Planner) Unanswered(ctx context.Context, kind workload.Kind, obj, old client.Object) (bool, error) {
	answer, err := p.engine(kind).Admit(ctx, rollout.Request{Object: obj, Old: old, DryRun: true})
	return len(answer.Patch) > 0, err
}
