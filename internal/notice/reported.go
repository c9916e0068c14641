package notice

import "slices"

// Reported remembers the conditions that were reported last, so that a lasting condition is reported once. The zero value is empty
// and ready to use.
type Reported struct{ last map[string]bool }

// News returns the conditions that were not among those of the previous call, and remembers all of them. Conditions with the same
// reason, source and keys become one notice: the event recorder takes events that differ only in their note for repetitions, and
// keeps only the first.
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

// sameEvent reports whether the event recorder would take the events of two conditions of one workload for the same event.
func sameEvent(a, b Notice) bool {
	return a.Reason == b.Reason && a.Source == b.Source && a.Keys == b.Keys
}
