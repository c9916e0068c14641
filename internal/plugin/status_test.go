package plugin

import (
	"fmt"
	"testing"

	"confrev.io/confrev/internal/view"
)

func TestWhatIsLeftIsOneLine(t *testing.T) {
	list := &view.StatusList{}
	for i, s := range []view.State{view.RolledOut, view.Held, view.Advancing, view.Untracked, view.Advancing, view.Advancing, view.Advancing} {
		list.Items = append(list.Items, view.WorkloadStatus{Workload: fmt.Sprint("deployment/", i), State: s, Message: "since"})
	}
	five := "deployment/1 is Held: since; deployment/2 is Advancing: since; deployment/4 is Advancing: since; deployment/5 is Advancing: since; " +
		"deployment/6 is Advancing: since"
	if got := listed(list, func(w view.WorkloadStatus) bool { return !w.State.Done() }); got != five {
		t.Errorf("got %s", got)
	}
	list.Items = append(list.Items, list.Items...)
	if got := listed(list, func(w view.WorkloadStatus) bool { return !w.State.Done() }); got != five+"; and 5 more" {
		t.Errorf("got %s", got)
	}
}

// The newest number comes first; a pod without a pin reads the source.
func TestPodsInALine(t *testing.T) {
	counts := []view.PodCount{{Revision: &view.RevisionName{Name: "app-b", Number: 2}, Count: 2}, {Count: 1}}
	if text := podsText(counts); text != "2@2,1@live" {
		t.Error(text)
	}
}

// Two numbers that differ are explained in the normal output, of five workloads at most.
func TestUnusedChangesAreExplained(t *testing.T) {
	list := &view.StatusList{}
	for i := range 7 {
		list.Items = append(list.Items, view.WorkloadStatus{Workload: fmt.Sprint("deployment/", i), Sources: []view.SourceStatus{
			{Source: "configmap/app", Pinned: &view.RevisionName{Name: "app-a", Number: 1}, Message: view.OnlyUnused}, {Source: "configmap/other", Pinned: &view.RevisionName{Name: "app-b", Number: 2}}}})
	}
	notes := unusedChanges(list)
	if len(notes) != 6 || notes[0] != "deployment/0 stays on revision 1 of configmap/app: only keys that it does not use have changed since" ||
		notes[5] != "and 2 more; -o wide shows them" {
		t.Errorf("%q", notes)
	}
}
