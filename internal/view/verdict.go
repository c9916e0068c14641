package view

import (
	"fmt"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/rollout"
)

// ExplainVerdict returns what the verdict on a source means for a workload. status, preview and the verbs that move pins use these words.
func ExplainVerdict(d plan.Decision) string {
	switch d.Verdict {
	case plan.InSync:
		if d.From != d.To {
			return fmt.Sprintf("rolled out to revision %d with the workload", d.To.Number)
		}
		return "nothing that the workload uses changes"
	case plan.Pinned:
		return fmt.Sprintf("pinned for the first time, to revision %d", d.To.Number)
	case plan.Advanced:
		return fmt.Sprintf("revision %d -> %d", d.From.Number, d.To.Number)
	case plan.Held:
		return fmt.Sprintf("held at revision %d: it was rolled back from this content", d.To.Number)
	case plan.Waiting:
		return fmt.Sprintf("waits at revision %d, as confrev.io/advance says", d.To.Number)
	case plan.KeyMissing, plan.SourceMissing:
		// No hash has the form of a revision's name.
		return rollout.ExplainMissing(d, pin.Names(d.Source.Name, d.From.Revision))
	case plan.Absent:
		if d.From != d.To {
			return fmt.Sprintf("does not exist, and is optional: pinned to revision %d, which is empty", d.To.Number)
		}
		return "does not exist, and is optional"
	}
	return "could not be looked at"
}
