package rollout

import (
	"fmt"
	"strings"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
)

// warnings returns what the user should know of a plan, except for what is said of writes. frozen reports whether pods have
// revisions to go on with.
func warnings(p plan.Plan, frozen bool) []notice.Notice {
	var all []notice.Notice
	for _, d := range p.Decisions {
		keep := ""
		if frozen && d.From != (pin.Pin{}) {
			keep = fmt.Sprintf("; pods keep using its revision %s", d.From)
		}
		switch d.Verdict {
		case plan.SourceMissing:
			all = append(all, notice.Notice{Reason: notice.SourceMissing, Source: d.Source, Text: missingSource(d, keep)})
		case plan.KeyMissing:
			all = append(all, notice.Notice{Reason: notice.KeyMissing, Source: d.Source, Keys: strings.Join(d.Keys, ","), Text: missingKeys(d, keep)})
		case plan.Waiting:
			all = append(all, notice.Notice{Reason: notice.WaitingToAdvance, Source: d.Source, Normal: true, Text: fmt.Sprintf(
				"%s changed; the annotation %s of the workload says when it rolls out", d.Source, keys.Advance)})
		}
	}
	return all
}

func missingSource(d plan.Decision, keep string) string {
	switch {
	case keep != "":
		return fmt.Sprintf("%s does not exist any more%s", d.Source, keep)
	case d.From != pin.Pin{}:
		return fmt.Sprintf("%s does not exist any more", d.Source)
	}
	return fmt.Sprintf("%s does not exist; new pods cannot start until it is created", d.Source)
}

func missingKeys(d plan.Decision, keep string) string {
	if keep == "" {
		return fmt.Sprintf("%s lacks %q, which a container requires; the workload goes on once it has it", d.Source, d.Keys)
	}
	return fmt.Sprintf("%s lacks %q, which a container requires%s", d.Source, d.Keys, keep)
}
