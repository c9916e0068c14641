package printer

import (
	"regexp"
	"strings"
)

// Markdown is a piece of a Markdown page in which nothing that others wrote has a meaning: it breaks no table, and is neither a link, nor
// HTML, nor a mention of a user. Prose and Code make it.
type Markdown string

// unseen is a character without a width. A code host that looks for links and mentions in a page finds none across it.
const unseen = "&#8203;"

var (
	spaces = regexp.MustCompile(`[^\S\n]+`)
	// block is what begins a list, a line or a heading if a line begins with it.
	block = regexp.MustCompile(`^(?:[-+=]|\d+[.)])`)
	www   = regexp.MustCompile(`(?i)(www)\.`)

	special = strings.NewReplacer(
		`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "|", `\|`, "~", `\~`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "\n", "<br>",
		"@", "@"+unseen, "#", "#"+unseen, "://", ":"+unseen+"//",
	)
)

// Prose returns a text as it reads, for a cell or an item of a list.
func Prose(text string) Markdown {
	text = special.Replace(strings.TrimSpace(spaces.ReplaceAllString(Escaped(text), " ")))
	text = www.ReplaceAllString(text, "${1}"+unseen+".")
	if block.MatchString(text) && text != "-" {
		text = unseen + text
	}
	return Markdown(text)
}

// Code returns a name or a command as code, in one line.
func Code(text string) Markdown {
	text = strings.TrimSpace(strings.Join(strings.Fields(Escaped(text)), " "))
	if text == "" {
		return "-"
	}
	// Renderers do not agree on a backslash before an escaped pipe.
	text = strings.ReplaceAll(strings.ReplaceAll(text, `\|`, `\ |`), "|", `\|`)
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		text = " " + text + " "
	}
	return Markdown(fence + text + fence)
}

// MarkdownTable returns a table. Each row has a cell for each heading.
func MarkdownTable(headings []string, rows [][]Markdown) string {
	var table strings.Builder
	table.WriteString("| " + strings.Join(headings, " | ") + " |\n|" + strings.Repeat("---|", len(headings)) + "\n")
	for _, row := range rows {
		for _, cell := range row {
			table.WriteString("| " + string(cell) + " ")
		}
		table.WriteString("|\n")
	}
	return table.String()
}
