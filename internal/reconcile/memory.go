package reconcile

import (
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
)

// memory is what this process knows about one workload in addition to the cache. Losing it costs a wait or a repeated warning, never a
// rollout.
type memory struct {
	uid types.UID
	// introduced is true once the Conductor knows what the workload has taken.
	introduced bool
	// generation and wrote are those of the last write. Until the cache shows them, wrote counts as rolled out although no holder shows it
	// (rule 4).
	generation int64
	wrote      *rollout.Given
	reverts    plan.Reverts
	// denied is true when the last write was denied, by a policy or otherwise.
	denied   bool
	rollouts rollouts
	// overdue is since when confrev's own pause of the workload lasts too long although what it waited for is there.
	overdue  time.Time
	settling plan.Settling
	// template are the template's pins at the last reconciliation.
	template string
	// reported are the latest warnings, so that each is sent once.
	reported notice.Reported
}

// follow remembers the pins of the template. If another client has moved them, settling starts again (rule 21.2).
func (m *memory) follow(template string) {
	if m.template != "" && m.template != template {
		m.settling = plan.Settling{}
	}
	m.template = template
}

// settle returns how long to wait before a change may be written (rule 2).
func (m *memory) settle(change rollout.Change, quiet time.Duration, now time.Time) time.Duration {
	if change.Text == "" {
		m.settling = plan.Settling{}
		return 0
	}
	if change.Urgent && !m.settling.Since().IsZero() {
		// If what is urgent is refused again, the rest continues to settle.
		return 0
	}
	m.settling = m.settling.Observe(change.Text, now)
	// A template without a pin does not keep the promise. Nor does one whose references were changed back, if nothing else resolves its
	// pins.
	if change.Urgent || change.OnlyInjects {
		return 0
	}
	return m.settling.Remaining(quiet, now)
}

func (m *memory) wroteNow(generation int64, w rollout.Written, now time.Time) {
	m.generation = generation
	if w.Gave != nil {
		m.wrote = w.Gave
		m.reverts.Wrote(w.Change.Text, now)
	}
	if w.Restarted || len(w.Change.Advances) > 0 {
		m.rollouts.wrote(now)
	}
	m.settling = plan.Settling{}
}

// memories has a memory for each workload; the zero value is empty. A workload is never reconciled twice at the same time, so only the map
// needs a lock.
type memories struct {
	mu sync.Mutex
	of map[types.NamespacedName]*memory
}

// get returns the memory of the workload with this UID, and forgets that of an earlier one of the same name.
func (m *memories) get(name types.NamespacedName, uid types.UID) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.of[name]; known != nil && known.uid == uid {
		return known
	}
	fresh := &memory{uid: uid}
	if m.of == nil {
		m.of = map[types.NamespacedName]*memory{}
	}
	m.of[name] = fresh
	return fresh
}

func (m *memories) forget(name types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, name)
}

// rollouts has the times at which confrev rolled out a workload by itself within the last hour.
type rollouts struct{ at []time.Time }

func (r *rollouts) wrote(now time.Time) {
	r.at = append(slices.DeleteFunc(r.at, func(at time.Time) bool { return now.Sub(at) >= time.Hour }), now)
}

func (r *rollouts) wait(perHour int, now time.Time) time.Duration {
	if len(r.at) < perHour {
		return 0
	}
	// This one and all since are as many as are allowed within an hour.
	return max(0, r.at[len(r.at)-perHour].Add(time.Hour).Sub(now))
}

// retryDenied is how long to wait after a write was denied for the first time: the API server's cache may not show yet that a namespace opted in, or
// a webhook was just not there.
const retryDenied = time.Second

// deniedOnce returns how long to wait before a denied write is worth a warning; 0 if the write before it was denied too, or if it was not denied.
func (m *memory) deniedOnce(err error) time.Duration {
	before := m.denied
	terminal, ok := errors.AsType[*notice.TerminalError](err)
	m.denied = ok && (terminal.Reason == revision.ConfinementRefused || terminal.Reason == notice.WriteRefused)
	if m.denied && !before {
		return retryDenied
	}
	return 0
}
