package inspect

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/view"
)

// statusTable has a row for each source of a workload.
func statusTable(list *view.StatusList) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: printer.Columns(
		[]string{"Workload", "Source", "Pinned", "Current", printer.StateColumn, "Pods"}, "Mode", "Revision", "Message")}
	for _, w := range list.Items {
		about := w.Metadata()
		if len(w.Sources) == 0 {
			table.Rows = append(table.Rows, printer.Row(about, w.Workload, "<none>", "-", "-", string(w.State), "-", w.Mode, "-", printer.OrDash(w.Message)))
		}
		for _, s := range w.Sources {
			table.Rows = append(table.Rows, printer.Row(about, w.Workload, s.Source, number(s.Pinned), number(s.Current), string(s.State),
				podsText(s.Pods), w.Mode, name(s.Pinned), printer.OrDash(s.Remark())))
		}
	}
	return table
}

func number(n *view.RevisionName) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(n.Number)
}

func name(n *view.RevisionName) string {
	if n == nil {
		return "-"
	}
	return n.Name
}

// podsText returns counts of pods: "2@4,1@3".
func podsText(counts []view.PodCount) string {
	var texts []string
	for _, c := range counts {
		carried := "live"
		if c.Revision != nil {
			carried = number(c.Revision)
		}
		texts = append(texts, fmt.Sprintf("%d@%s", c.Count, carried))
	}
	return printer.OrDash(strings.Join(texts, ","))
}

// unusedChanges returns the sources of which only keys have changed that a workload does not use: its numbers differ, and nothing is wrong.
func unusedChanges(list *view.StatusList) []string {
	var notes []string
	for _, w := range list.Items {
		for _, s := range w.Sources {
			if s.Message == view.OnlyUnused {
				notes = append(notes, fmt.Sprintf("%s stays on revision %s of %s: %s", w.Workload, number(s.Pinned), s.Source, view.OnlyUnused))
			}
		}
	}
	if more := len(notes) - shownLeft; more > 0 {
		notes = append(notes[:shownLeft], fmt.Sprintf("and %d more; -o wide shows them", more))
	}
	return notes
}
