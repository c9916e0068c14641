package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/view"
)

// previewPage returns a preview as Markdown, for a comment on a pull request: what rolls out comes first.
func previewPage(list *view.PreviewList) string {
	var page strings.Builder
	fmt.Fprintf(&page, "## %s\n\n", list.Headline())
	notes := slices.Clone(list.Notes)
	for _, change := range list.Changes {
		notes = append(notes, changeText(change))
	}
	for _, note := range notes {
		fmt.Fprintf(&page, "- %s\n", printer.Prose(note))
	}
	if len(notes) > 0 {
		page.WriteString("\n")
	}
	if len(list.Workloads) == 0 {
		page.WriteString(nothingUses + "\n")
		return page.String()
	}
	sorted := slices.Clone(list.Workloads)
	slices.SortStableFunc(sorted, func(a, b view.Preview) int { return cmp.Compare(a.Outcome(), b.Outcome()) })
	var rows [][]printer.Markdown
	for _, w := range sorted {
		rows = append(rows, pageRows(w)...)
	}
	page.WriteString(printer.MarkdownTable([]string{"namespace", "workload", "source", "verdict", "when", "why"}, rows))
	return page.String()
}

// pageRows returns a row for each reason of a workload.
func pageRows(w view.Preview) [][]printer.Markdown {
	var rows [][]printer.Markdown
	add := func(source printer.Markdown, verdict, when, why string) {
		rows = append(rows, []printer.Markdown{printer.Code(w.Namespace), printer.Code(w.Workload), source, printer.Prose(verdict), printer.Prose(when), printer.Prose(why)})
	}
	rollsOut := cmp.Or(w.When, "at once")
	if w.Template {
		add("the pod template", "Changed", rollsOut, templateChanges)
	}
	for _, change := range w.Sources {
		when := "-"
		switch {
		case change.From != change.To:
			when = rollsOut
		case change.Verdict == string(plan.Waiting):
			when = "later"
		}
		add(printer.Code(change.Source), change.Verdict, when, change.Because)
	}
	if len(rows) == 0 {
		add("-", string(plan.InSync), "-", nothingChanges)
	}
	return rows
}
