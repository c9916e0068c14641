package notice

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"confrev.io/confrev/internal/pin"
)

const (
	// MaxText is how many bytes the text of a reported condition has at most: the API server accepts no longer note of an event.
	MaxText = 1024
	// maxEach is how many conditions with the same reason are reported. Anyone who may create a workload decides how many there are.
	maxEach = 20
	// maxNames is how many names one text lists.
	maxNames = 5
)

// Names returns the first of several names, and how many more there are.
func Names(all []string) string {
	if len(all) <= maxNames {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:maxNames], ", "), len(all)-maxNames)
}

// Few returns each condition once, and only the first of those with the same reason. Instead of the rest, there is one notice that counts
// them.
func Few(conditions []Notice) []Notice {
	type sentence struct{ reason, text string }
	said, counts := map[sentence]bool{}, map[string]int{}
	var few, rest []Notice
	for _, n := range conditions {
		same := sentence{n.Reason, n.Text}
		if said[same] {
			continue
		}
		said[same] = true
		switch counts[n.Reason]++; {
		case counts[n.Reason] <= maxEach:
			few = append(few, n)
		case counts[n.Reason] == maxEach+1:
			rest = append(rest, Notice{Reason: n.Reason, Normal: n.Normal})
		}
	}
	for _, n := range rest {
		n.Text = fmt.Sprintf("and %d more of this kind, which kubectl confrev status shows", counts[n.Reason]-maxEach)
		few = append(few, n)
	}
	return few
}

// Reported remembers the conditions that were reported last, so that a lasting condition is reported once. The zero value is empty
// and ready to use.
type Reported struct{ last map[digest]bool }

// digest stands for a condition. There is one Reported for each workload, and users decide how long texts are.
type digest [sha256.Size]byte

// News returns the conditions that were not among those of the previous call, and remembers all of them, as far as Few returns them.
// Conditions with the same reason, source and keys become one notice: the event recorder takes events that differ only in their note for
// repetitions, and keeps only the first.
func (r *Reported) News(conditions []Notice) []Notice {
	type event struct {
		reason, keys string
		source       pin.Source
	}
	reported, at := map[digest]bool{}, map[event]int{}
	var fresh []Notice
	for _, n := range Few(conditions) {
		key := digest(sha256.Sum256([]byte(n.Reason + " " + n.Text)))
		reported[key] = true
		if r.last[key] {
			continue
		}
		about := event{n.Reason, n.Keys, n.Source}
		same, known := at[about]
		if !known {
			at[about] = len(fresh)
			n.Text = Cut(n.Text, MaxText)
			fresh = append(fresh, n)
			continue
		}
		fresh[same].Text = Cut(fresh[same].Text+"; "+n.Text, MaxText)
	}
	r.last = reported
	return fresh
}
