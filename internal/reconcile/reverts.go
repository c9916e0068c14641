package reconcile

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/plan"
)

// reverter returns the field manager that keeps undoing what confrev writes on a workload, as far as its managed fields tell.
func (r *Workloads) reverter(ctx context.Context, obj client.Object, times int) string {
	other := "another controller"
	live := r.Kind.New()
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(obj), live); err == nil {
		if latest := latestManagers(live.GetManagedFields()); len(latest) > 0 {
			other += " (the last one to write was field manager " + strings.Join(latest, " or ") + ")"
		}
	}
	return fmt.Sprintf("%s undid confrev's change of the pod template %d times in a row, so confrev leaves it alone for %s or until a "+
		"source changes. Let the owner of this %s keep the pod template's annotations, or opt out with %s=none",
		other, times, plan.RetryReverted, r.Kind.Resource(), keys.Track)
}

// latestManagers returns the field managers, other than confrev, that wrote an object last. They are noted by the second.
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
