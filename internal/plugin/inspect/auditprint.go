package inspect

import (
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/audit"
	"confrev.io/confrev/internal/audit/collect"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/plugin/printer"
)

// nothingFound is what is said of an audit without findings. It must not sound like a proof.
const nothingFound = "Nothing was found, as far as you may see. That is no proof that all pods are up to date."

// needsController is said of fixes that annotate a workload for confrev.
const needsController = "A fix with \"kubectl confrev track\" or the annotation confrev.io/mode takes effect when confrev's controller runs in the cluster."

func (o *auditOptions) show(found *collect.Audit) error {
	if o.IsMarkdown() {
		return printAuditPage(o.Out, found)
	}
	o.PrintNotes(found.Notes)
	if !o.IsTable() {
		return o.Print(o.Out, found, auditTable(found), o.all)
	}
	if len(found.Findings) > 0 {
		if err := o.PrintTable(o.Out, auditTable(found), o.all); err != nil {
			return err
		}
	}
	_, err := io.WriteString(o.Out, afterAuditTable(found))
	return err
}

// auditTable returns a row for each finding. A fix of several commands continues in further rows.
func auditTable(found *collect.Audit) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: printer.Columns([]string{"Severity", "Reason", "Object", "Pods", "Sources", "Fix"}, "Message")}
	for i := range found.Findings {
		f := &found.Findings[i]
		commands := strings.Split(printer.OrDash(f.Fix), "\n")
		table.Rows = append(table.Rows, printer.Row(aboutFinding(f), string(f.Severity), string(f.Reason), f.Object, podCount(f.Pods),
			printer.OrDash(strings.Join(first(f.Sources, shownKeys, "+%d more"), ",")), commands[0], f.Message))
		for _, command := range commands[1:] {
			table.Rows = append(table.Rows, printer.Continued("", "", "", "", "", command, ""))
		}
	}
	return table
}

func podCount(n int) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// aboutFinding returns what a finding is about, as an object of its kind, as far as its name shows one.
func aboutFinding(f *audit.Finding) *metav1.PartialObjectMetadata {
	kind, name, _ := strings.Cut(f.Object, "/")
	about := metadata.New(schema.GroupVersionKind{Version: "v1", Kind: kind})
	about.Namespace, about.Name = f.Namespace, name
	return about
}

// reasonsOf returns the reasons of the findings, each once, in their order.
func reasonsOf(found *collect.Audit) []audit.Reason {
	var reasons []audit.Reason
	for _, f := range found.Findings {
		if !slices.Contains(reasons, f.Reason) {
			reasons = append(reasons, f.Reason)
		}
	}
	return reasons
}

// afterAuditTable explains the reasons, and sums up.
func afterAuditTable(found *collect.Audit) string {
	var text strings.Builder
	for _, reason := range reasonsOf(found) {
		fmt.Fprintf(&text, "\n%s: %s\n", reason, reason.Explain())
	}
	if len(found.Findings) > 0 {
		fmt.Fprintf(&text, "\n%s\n", needsController)
	} else {
		fmt.Fprintf(&text, "%s\n", nothingFound)
	}
	fmt.Fprintf(&text, "%s\n", summed(found.Summary))
	return text.String()
}

// summed returns the summary as a line.
func summed(s audit.Summary) string {
	if s.Pods < 0 {
		return fmt.Sprintf("Workloads: %d. Pods: not seen.", s.Workloads)
	}
	return fmt.Sprintf("Workloads: %d. Pods: %d, of which stale: %d, unknown: %d, without a recorded change since they started: %d.",
		s.Workloads, s.Pods, s.Stale, s.Unknown, s.Unchanged)
}

// printAuditPage prints an audit as a Markdown page, with a section for each reason.
func printAuditPage(out io.Writer, found *collect.Audit) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# Configuration audit\n\n%s\n", summed(found.Summary))
	for _, note := range found.Notes {
		fmt.Fprintf(&text, "- %s\n", printer.Prose(note))
	}
	if len(found.Findings) == 0 {
		fmt.Fprintf(&text, "\n%s\n", nothingFound)
	}
	for _, reason := range reasonsOf(found) {
		var rows [][]printer.Markdown
		for _, f := range found.Findings {
			if f.Reason == reason {
				rows = append(rows, []printer.Markdown{printer.Prose(string(f.Severity)), printer.Prose(f.Namespace), printer.Prose(f.Object),
					printer.Markdown(podCount(f.Pods)), printer.Prose(f.Message), commands(f.Fix)})
			}
		}
		fmt.Fprintf(&text, "\n## %s\n\n%s\n\n%s", reason, reason.Explain(),
			printer.MarkdownTable([]string{"severity", "namespace", "object", "pods", "what", "fix"}, rows))
	}
	if len(found.Findings) > 0 {
		fmt.Fprintf(&text, "\n%s\n", needsController)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// commands returns commands for a cell of a Markdown table, each as code.
func commands(fix string) printer.Markdown {
	var code []string
	for command := range strings.SplitSeq(fix, "\n") {
		code = append(code, string(printer.Code(command)))
	}
	return printer.Markdown(strings.Join(code, "<br>"))
}
