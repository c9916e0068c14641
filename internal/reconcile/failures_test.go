package reconcile

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"

	"confrev.io/confrev/internal/fleet"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/notice/sink"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/gen"
)

// Rule 40: a revision that is gone does not come back by itself, so that it cannot be undone is said, once for each stop. Anything else is tried
// again.
func TestWhatCannotBeUndoneIsSaidOnce(t *testing.T) {
	web := gen.Web("1")
	w := newWorld(web)
	told := events.NewFakeRecorder(100)
	c := &Conductor{Notices: sink.Events(told), lost: lru.New(10)}
	s := &fleet.Survey{Current: pin.Pin{Revision: "app-bbbbbbbbbb", Number: 2}}
	s.Source, s.Record.Stops = revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: "app"}, 1
	earlier := revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: "app-zzzzzzzzzz"}
	_, _, gone := w.Store.Verify(t.Context(), s.Source.Source(), earlier)
	undo := func() {
		t.Helper()
		if err := c.notUndone(t.Context(), s, fleet.Workload{Engine: w.Engine}, web, gone); err != nil {
			t.Error(err)
		}
	}
	undo()
	undo()
	said := drained(told)
	if len(said) != 1 || !strings.HasPrefix(said[0], "Warning "+notice.NotRolledBack+" revision 2 of configmap/app is not rolled back here: revision app-zzzzzzzzzz") {
		t.Errorf("said %q", said)
	}
	s.Record.Stops = 2
	if undo(); len(told.Events) != 1 {
		t.Error("the next stop says nothing")
	}
	drained(told)
	denied := notice.Terminal(notice.WriteRefused, "deployments default/web cannot be changed: x denied it")
	for range 2 {
		if got := c.notUndone(t.Context(), s, fleet.Workload{Engine: w.Engine}, web, denied); !errors.Is(got, denied) {
			t.Errorf("%v, so what is denied is not tried again", got)
		}
	}
	const want = "Warning " + notice.NotRolledBack + " revision 2 of configmap/app is not rolled back here: deployments default/web cannot be changed: x denied it. The workload"
	if said := drained(told); len(said) != 1 || !strings.HasPrefix(said[0], want) {
		t.Errorf("of what is denied, said %q", said)
	}
	for _, err := range []error{revision.NewChanged("deployment default/web"), errors.New("no route to host")} {
		if got := c.notUndone(t.Context(), s, fleet.Workload{Engine: w.Engine}, web, err); !errors.Is(got, err) {
			t.Errorf("%v instead of %v", got, err)
		}
	}
}
