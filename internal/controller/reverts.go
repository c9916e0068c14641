package controller

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
)

const (
	// maxReverts is how often something must undo the same right away for confrev to leave it alone.
	maxReverts = 3
	// maxReapplied is the same for the names of references alone: with injection into the template, each time that a user
	// applies the manifest puts them back.
	maxReapplied = 10
	// revertWindow is how soon after a write its undoing counts as the work of a controller, not of a person.
	revertWindow = time.Minute
	// retryReverted is when to try once more, in case the other controller has learned better.
	retryReverted = time.Hour
)

// reverts counts how often what was written to a template was undone. The zero value has counted nothing.
type reverts struct {
	text string
	at   time.Time
	// rounds is how often the text was written in a row.
	rounds int
	// lost is true when the API server itself does not keep the text.
	lost bool
}

// pruned notes that the API server did not keep what was written. Writing it again does not help.
func (r *reverts) pruned(text string, now time.Time) {
	*r = reverts{text: text, at: now, rounds: maxReapplied, lost: true}
}

// wrote notes a write. The same again, soon after, means that something undid the write before.
func (r *reverts) wrote(text string, now time.Time) {
	switch {
	case text != r.text:
		r.rounds = 1
	case now.Sub(r.at) < revertWindow:
		r.rounds++
	case r.rounds < maxReverts:
		// Whatever undid it took its time. Only a fight goes on after any time.
		r.rounds = 1
	}
	r.text, r.at, r.lost = text, now, false
}

// fighting gives how long to leave a template alone of which something undid the same text so many times.
func (r *reverts) fighting(text string, times int, now time.Time) time.Duration {
	if text != r.text || r.rounds < times {
		return 0
	}
	return max(0, r.at.Add(retryReverted).Sub(now))
}

// reverter says who keeps undoing what confrev writes on a workload, as far as its managed fields tell.
func (r *workloads) reverter(ctx context.Context, obj client.Object, times int) string {
	other := "another controller"
	live := r.kind.New()
	if err := r.live.Get(ctx, key(obj), live); err == nil {
		if latest := latestManagers(live.GetManagedFields()); len(latest) > 0 {
			other += " (the last one to write was field manager " + strings.Join(latest, " or ") + ")"
		}
	}
	return fmt.Sprintf("%s undid confrev's change of the pod template %d times in a row, so confrev leaves it alone for %s or until a "+
		"source changes. Let the owner of this %s keep the pod template's annotations, or opt out with %s=none",
		other, times, retryReverted, r.kind.Resource(), keys.Track)
}

// latestManagers gives the field managers, other than confrev, that wrote an object last. They are noted by the second.
func latestManagers(entries []metav1.ManagedFieldsEntry) []string {
	var latest time.Time
	var managers []string
	for _, entry := range entries {
		if entry.Manager == keys.FieldManager || entry.Subresource != "" || entry.Time == nil || entry.Time.Time.Before(latest) {
			continue
		}
		if entry.Time.After(latest) {
			latest, managers = entry.Time.Time, nil
		}
		managers = append(managers, strconv.Quote(entry.Manager))
	}
	return managers
}
