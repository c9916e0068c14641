package notice

import "slices"

// Reported remembers which conditions were reported last, so that each is reported once. The zero value remembers none.
type Reported struct{ last map[string]bool }

// News returns those of the conditions that were not reported before, and remembers all of them. Those of one reason about the same
// are one: events that differ only in their note are taken for repetitions, and the first is kept.
func (r *Reported) News(conditions []Notice) []Notice {
	reported := map[string]bool{}
	var fresh []Notice
	for _, n := range conditions {
		key := n.Reason + " " + n.Text
		if r.last[key] || reported[key] {
			reported[key] = true
			continue
		}
		reported[key] = true
		same := slices.IndexFunc(fresh, func(other Notice) bool { return sameEvent(other, n) })
		if same < 0 {
			fresh = append(fresh, n)
			continue
		}
		fresh[same].Text += "; " + n.Text
	}
	r.last = reported
	return fresh
}

// sameEvent reports whether two conditions of one workload would be one event.
func sameEvent(a, b Notice) bool {
	return a.Reason == b.Reason && a.Source == b.Source && a.Keys == b.Keys
}
