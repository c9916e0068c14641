package inspect

import (
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/view"
)

// --watch looks again every two seconds, and prints only what has changed.
func TestAWatchedSpreadIsPrintedWhenItChanges(t *testing.T) {
	list := func(vouched int) *view.SpreadList {
		return &view.SpreadList{Items: []view.SpreadStatus{{Source: "configmap/app", Revision: &view.RevisionName{Name: "app-a", Number: 1}, Vouched: vouched, Members: 2}}}
	}
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	o := &statusOptions{Session: &session.Session{IOStreams: streams}, Output: printer.Output{Flags: genericclioptions.NewPrintFlags("")}}
	for name, test := range map[string]struct {
		before, list *view.SpreadList
		printed      bool
	}{
		"first":     {nil, list(1), true},
		"the same":  {list(1), list(1), false},
		"something": {list(1), list(2), true},
	} {
		out.Reset()
		if err := o.redrawSpreads(test.before, test.list); err != nil || out.Len() > 0 != test.printed {
			t.Errorf("%s: %v, %q", name, err, out.String())
		}
	}
}
