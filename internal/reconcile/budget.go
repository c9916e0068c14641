package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
)

// rollouts has when confrev rolled a workload out by itself within the last hour. The zero value has none.
type rollouts struct{ at []time.Time }

// wrote notes a rollout.
func (r *rollouts) wrote(now time.Time) {
	r.at = append(slices.DeleteFunc(r.at, func(at time.Time) bool { return now.Sub(at) >= time.Hour }), now)
}

// wait returns how long until there may be one more rollout, of so many within any hour.
func (r *rollouts) wait(perHour int, now time.Time) time.Duration {
	if len(r.at) < perHour {
		return 0
	}
	// All between this one and now are as many as there may be.
	return max(0, r.at[len(r.at)-perHour].Add(time.Hour).Sub(now))
}

// overspent returns how long a workload must wait before its sources may roll it out again (rule 11), and what to say. Many
// sources, each within its own limit, would push every image that an undo could bring back out of the workload's history. What
// is urgent does not wait.
func (r *Workloads) overspent(obj client.Object, change rollout.Change, known *memory) (time.Duration, notice.Notice) {
	sources := change.Advances
	if len(sources) == 0 || change.Urgent {
		return 0, notice.Notice{}
	}
	wait := known.rollouts.wait(r.RolloutsPerHour, r.Now())
	if wait == 0 {
		return 0, notice.Notice{}
	}
	names := make([]string, 0, len(sources))
	for _, source := range sources {
		names = append(names, source.String())
	}
	return wait, notice.Notice{Reason: revision.TooFrequent, Text: fmt.Sprintf(
		"%s/%s was rolled out %d times within an hour for changes to its sources, which is as often as it may be; %s waits",
		r.Kind.Resource(), obj.GetName(), r.RolloutsPerHour, strings.Join(names, ", "))}
}
