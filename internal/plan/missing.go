package plan

import (
	"cmp"
	"fmt"

	"confrev.io/confrev/internal/pin"
)

// Missing returns what it means for a workload that a source, or keys of it, do not exist. frozen reports whether pods have a revision to continue with.
func (d Decision) Missing(frozen bool) string {
	keep := ""
	if frozen && d.From != (pin.Pin{}) {
		keep = fmt.Sprintf("; pods keep using its revision %s", d.From)
	}
	switch {
	case d.Verdict == KeyMissing:
		return fmt.Sprintf("lacks %q, which a container requires%s", d.Keys, cmp.Or(keep, "; the workload continues once it has it"))
	case d.From != pin.Pin{}:
		return "does not exist any more" + keep
	}
	return "does not exist; new pods cannot start until it is created"
}
