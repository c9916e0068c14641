package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/test/gen"
)

func TestWhatIsLeftIsOneLine(t *testing.T) {
	list := &view.StatusList{}
	for i, s := range []view.State{view.RolledOut, view.Held, view.Advancing, view.Untracked, view.Advancing, view.Advancing, view.Advancing} {
		list.Items = append(list.Items, view.WorkloadStatus{WorkloadRef: view.WorkloadRef{Workload: fmt.Sprint("deployment/", i)}, State: s, Message: "since"})
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
		list.Items = append(list.Items, view.WorkloadStatus{WorkloadRef: view.WorkloadRef{Workload: fmt.Sprint("deployment/", i)}, Sources: []view.SourceStatus{
			{Source: "configmap/app", Pinned: &view.RevisionName{Name: "app-a", Number: 1}, Message: view.OnlyUnused}, {Source: "configmap/other", Pinned: &view.RevisionName{Name: "app-b", Number: 2}}}})
	}
	notes := unusedChanges(list)
	if len(notes) != 6 || notes[0] != "deployment/0 stays on revision 1 of configmap/app: only keys that it does not use have changed since" ||
		notes[5] != "and 2 more; -o wide shows them" {
		t.Errorf("%q", notes)
	}
}

// What others wrote stays in its line, as plain text.
func TestForeignTextIsShownOnOneLine(t *testing.T) {
	wide := printer.Output{Flags: genericclioptions.NewPrintFlags("")}
	*wide.Flags.OutputFormat = "wide"
	for name, show := range map[string]func(*session.Session) error{
		"doctor": func(p *session.Session) error {
			return printDiagnosis(p.Out, &view.Diagnosis{Findings: []view.Finding{
				{Severity: view.SeverityWarning, Object: "deployment/web", Message: gen.Hostile, Fix: gen.Hostile}}})
		},
		"notes": func(p *session.Session) error { p.PrintNotes([]string{gen.Hostile}); return nil },
		"a table": func(p *session.Session) error {
			list := &view.StatusList{Items: []view.WorkloadStatus{{WorkloadRef: view.WorkloadRef{Workload: "deployment/web"}, Message: gen.Hostile}}}
			return wide.Print(p.Out, list, statusTable(list), false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			p := &session.Session{IOStreams: printer.Screened(genericiooptions.IOStreams{Out: &out, ErrOut: &out})}
			if err := show(p); err != nil || !gen.Harmless(out.String()) {
				t.Errorf("%v, it shows %q", err, out.String())
			}
		})
	}
}

// A wait that reached its goal, or found that a person has to act, at the moment of its deadline is not one that timed out.
func TestAWaitThatEndsAtItsDeadline(t *testing.T) {
	over, stop := context.WithTimeout(t.Context(), 0)
	defer stop()
	<-over.Done()
	workloads := func(state view.State) *view.StatusList {
		return &view.StatusList{Items: []view.WorkloadStatus{{WorkloadRef: view.WorkloadRef{Workload: "deployment/web"}, State: state}}}
	}
	sources := func(state view.SpreadState) *view.SpreadList {
		return &view.SpreadList{Items: []view.SpreadStatus{{Source: "configmap/app", State: state}}}
	}
	for name, test := range map[string]struct {
		end    func(*statusOptions) error
		status int
		says   string
	}{
		"rolled out":             {func(o *statusOptions) error { return o.end(over, workloads(view.RolledOut), nil) }, 0, ""},
		"held":                   {func(o *statusOptions) error { return o.end(over, workloads(view.Held), nil) }, 3, "does not end without action"},
		"not rolled out in time": {func(o *statusOptions) error { return o.end(over, workloads(view.Advancing), over.Err()) }, 3, "timed out after 1m0s: deployment/web is Advancing"},
		"complete":               {func(o *statusOptions) error { return o.endSpreads(over, sources(view.Complete), nil) }, 0, ""},
		"stopped":                {func(o *statusOptions) error { return o.endSpreads(over, sources(view.Stopped), nil) }, 4, "does not end without action"},
		"not complete in time":   {func(o *statusOptions) error { return o.endSpreads(over, sources(view.Underway), over.Err()) }, 3, "timed out after 1m0s: configmap/app is Underway"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			o := &statusOptions{Session: &session.Session{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &out}}, wait: true, timeout: time.Minute}
			o.Flags = genericclioptions.NewPrintFlags("")
			err := test.end(o)
			ended, _ := errors.AsType[session.ExitStatus](err)
			if ended.Status != test.status || (err == nil) != (test.status == 0) || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("status %d, %v", ended.Status, err)
			}
		})
	}
}

// Workloads of two namespaces may have equal rows.
func TestARowOfEachNamespaceIsPrinted(t *testing.T) {
	list := func(states ...view.State) *view.StatusList {
		list := &view.StatusList{}
		for i, state := range states {
			list.Items = append(list.Items, view.WorkloadStatus{WorkloadRef: view.WorkloadRef{Namespace: []string{"blue", "green"}[i], Workload: "deployment/web"}, State: state})
		}
		return list
	}
	var out bytes.Buffer
	o := &statusOptions{Session: &session.Session{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &out}}, all: true}
	o.Flags = genericclioptions.NewPrintFlags("")
	err := o.redraw(list(view.RolledOut, view.Advancing), list(view.RolledOut, view.RolledOut))
	if text := out.String(); err != nil || !strings.Contains(text, "green") || strings.Contains(text, "blue") {
		t.Errorf("%v, it prints %q", err, text)
	}
}
