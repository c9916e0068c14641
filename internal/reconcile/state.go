package reconcile

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/waiting"
)

// state is how far a workload is with what its sources have now.
type state string

// The states, from the one that most needs attention. A workload has the first that is true for one of its sources.
const (
	// stateMissing: a source, or a key of one, does not exist although it is required.
	stateMissing state = "missing"
	// stateHeld: it was rolled back, and stays there (rule 4).
	stateHeld state = "held"
	// stateWaiting: a change waits for a deploy, a person or a time (rule 32).
	stateWaiting state = "waiting"
	// stateUnknown: a source could not be read.
	stateUnknown state = "unknown"
	// stateBehind: a change is about to be written, or is refused or prevented.
	stateBehind state = "behind"
	// stateCurrent: there is nothing to write.
	stateCurrent state = "current"
)

var byUrgency = []state{stateMissing, stateHeld, stateWaiting, stateUnknown, stateBehind, stateCurrent}

var ofVerdict = map[plan.Verdict]state{
	plan.SourceMissing: stateMissing, plan.KeyMissing: stateMissing, plan.Held: stateHeld, plan.Waiting: stateWaiting, plan.Unknown: stateUnknown,
}

// standing is the state of a workload and, if that is waiting, the reason.
type standing struct {
	state  state
	reason waiting.Reason
}

// standingOf returns how a workload stands as it was assessed. The state is empty for one that follows nothing.
func standingOf(look rollout.Assessment) standing {
	s := standing{state: stateOf(look)}
	if s.state != stateWaiting {
		return s
	}
	waits := func(r waiting.Reason) bool {
		return slices.ContainsFunc(slices.Concat(look.Pins.Decisions, look.Hashes.Decisions), func(d plan.Decision) bool { return d.Wait.Reason == r })
	}
	if first := slices.IndexFunc(waiting.Reasons, waits); first >= 0 {
		s.reason = waiting.Reasons[first]
	}
	return s
}

func stateOf(look rollout.Assessment) state {
	if !look.Follows {
		return ""
	}
	found := []state{stateCurrent}
	if look.Change().Text != "" {
		found = append(found, stateBehind)
	}
	for _, decision := range slices.Concat(look.Pins.Decisions, look.Hashes.Decisions) {
		if of, noted := ofVerdict[decision.Verdict]; noted {
			found = append(found, of)
		}
	}
	return byUrgency[slices.IndexFunc(byUrgency, func(s state) bool { return slices.Contains(found, s) })]
}

// States are the states of all workloads that this process follows. As a collector, it counts them when it is asked, so that nothing is
// left of a namespace that is gone.
type States struct {
	namespaces bool
	mu         sync.Mutex
	of         map[stated]standing
}

// NewStates returns States without a workload. If namespaces is true, they are counted by namespace, whose names all clients that may read
// the metrics then learn.
func NewStates(namespaces bool) *States {
	return &States{namespaces: namespaces, of: map[stated]standing{}}
}

// stated is a workload that has a state. Its kind is in the form "deployment".
type stated struct {
	kind string
	name types.NamespacedName
}

// set remembers how a workload stands. The zero standing forgets the workload.
func (s *States) set(workload stated, is standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is == (standing{}) {
		delete(s.of, workload)
		return
	}
	s.of[workload] = is
}

// waits notes what a workload waits for by now, of one that waits for its turn: others change that, and it is not looked at each time.
func (s *States) waits(workload stated, reason waiting.Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is := s.of[workload]; (waiting.Wait{Reason: is.reason}).IsTurn() {
		s.of[workload] = standing{is.state, reason}
	}
}

// Forget forgets the workloads of a namespace, which this process does not follow any more.
func (s *States) Forget(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.of, func(workload stated, _ standing) bool { return workload.name.Namespace == namespace })
}

// Describe implements prometheus.Collector.
func (s *States) Describe(to chan<- *prometheus.Desc) { to <- metricWorkloads }

// Collect implements prometheus.Collector.
func (s *States) Collect(to chan<- prometheus.Metric) {
	type labels struct {
		namespace, kind string
		is              standing
	}
	count := map[labels]int{}
	s.mu.Lock()
	for workload, is := range s.of {
		l := labels{kind: workload.kind, is: is}
		if s.namespaces {
			l.namespace = workload.name.Namespace
		}
		count[l]++
	}
	s.mu.Unlock()
	for l, n := range count {
		to <- prometheus.MustNewConstMetric(metricWorkloads, prometheus.GaugeValue, float64(n), l.namespace, l.kind, string(l.is.state), string(l.is.reason))
	}
}
