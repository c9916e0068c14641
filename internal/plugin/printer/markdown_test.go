package printer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/test/gen"
)

// hostile are texts that someone might write to make a page say something else, or lead somewhere else.
var hostile = []string{
	gen.Hostile, "a|b", `a\|b`, `a\\|b`, "|---|\n| x |", "two\nlines\n\n# heading", "\n\n| a | b |\n|---|---|\n", "# heading", "- item", "1. item", "> quote", "***", "---",
	"    code", "```\ncode", "~~~", "`code`", "``a`b``", "`", `\`, "trailing\\", "[text](https://evil.example)", "![image](https://evil.example/x.png)", "[a]: https://evil.example",
	"<https://evil.example>", "https://evil.example/path", "HTTP://EVIL.EXAMPLE", "www.evil.example", "x (WWW.evil.example)", "mail@evil.example", "mailto:mail@evil.example",
	"<script>alert(1)</script>", "see <b>here</b>", "<img src=x onerror=alert(1)>", "</td></tr></table>", "<!-- hidden", "&lt;b&gt;", "&#60;b&#62;", "*emphasis* _emphasis_ ~~struck~~", "@team please approve",
	"fixes #12", "- [x] done", "[^1]", "$x$", "\u202ereversed", "\xff", "ftp://evil.example", "+ item", "= =", "===",
}

// parsed returns a page as a code host reads it.
func parsed(page string) ast.Node {
	return goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote)).Parser().Parse(text.NewReader([]byte(page)))
}

// kinds returns how often each kind of node is in a page.
func kinds(t *testing.T, page string) map[string]int {
	t.Helper()
	found := map[string]int{}
	err := ast.Walk(parsed(page), func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			found[node.Kind().String()]++
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// The check is one: without escaping, these texts do what they are meant to do.
func TestHostileTextsAreHostile(t *testing.T) {
	all := map[string]int{}
	for _, text := range hostile {
		for kind, n := range kinds(t, text) {
			all[kind] += n
		}
	}
	for _, kind := range []ast.NodeKind{
		ast.KindLink, ast.KindAutoLink, ast.KindImage, ast.KindHTMLBlock, ast.KindRawHTML, ast.KindHeading, ast.KindEmphasis, ast.KindList, ast.KindCodeBlock, ast.KindFencedCodeBlock,
		ast.KindCodeSpan, ast.KindBlockquote, ast.KindThematicBreak, extast.KindTable, extast.KindStrikethrough, extast.KindTaskCheckBox,
	} {
		if all[kind.String()] == 0 {
			t.Errorf("no text is a %s: %v", kind, all)
		}
	}
}

// Whatever a text says, it stays in its cell, and is a text there.
func TestNothingBreaksATable(t *testing.T) {
	for _, text := range hostile {
		for name, cell := range map[string]printer.Markdown{"prose": printer.Prose(text), "code": printer.Code(text)} {
			page := "before\n\n" + printer.MarkdownTable([]string{"a", "b", "c"}, [][]printer.Markdown{{"1", cell, "3"}, {"4", "5", "6"}}) + "\nafter\n"
			found := kinds(t, page)
			for kind, want := range map[string]int{
				ast.KindParagraph.String(): 2, extast.KindTable.String(): 1, extast.KindTableHeader.String(): 1, extast.KindTableRow.String(): 2, extast.KindTableCell.String(): 9,
				ast.KindLink.String(): 0, ast.KindAutoLink.String(): 0, ast.KindImage.String(): 0, ast.KindHTMLBlock.String(): 0, ast.KindHeading.String(): 0, ast.KindEmphasis.String(): 0,
				extast.KindStrikethrough.String(): 0, extast.KindFootnoteLink.String(): 0, ast.KindRawHTML.String(): strings.Count(string(cell), "<br>"),
			} {
				if found[kind] != want {
					t.Errorf("%q as %s has %d of %s, want %d:\n%s", text, name, found[kind], kind, want, page)
				}
			}
			if strings.Count(page, "\n") != 8 {
				t.Errorf("%q as %s is more than a line:\n%s", text, name, page)
			}
			if name == "prose" && (strings.Contains(page, "@t") || strings.Contains(page, "#1")) {
				t.Errorf("%q mentions a user or an issue: %s", text, page)
			}
		}
	}
}

// In a list, each text is one item and a text.
func TestNothingBreaksAList(t *testing.T) {
	for _, text := range hostile {
		page := fmt.Sprintf("- %s\n- last\n", printer.Prose(text))
		found := kinds(t, page)
		delete(found, ast.KindText.String())
		delete(found, ast.KindRawHTML.String())
		if got := fmt.Sprint(found); got != "map[Document:1 List:1 ListItem:2 TextBlock:2]" {
			t.Errorf("%q as an item is %s:\n%s", text, got, page)
		}
	}
}

// What is not hostile can still be read.
func TestMarkdownOfPlainText(t *testing.T) {
	for text, want := range map[string]printer.Markdown{
		"revision 1 -> 2": "revision 1 -&gt; 2", "held at revision 1: it was rolled back": "held at revision 1: it was rolled back", "": "",
		"two\nlines": "two<br>lines", "-": "-",
	} {
		if got := printer.Prose(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]printer.Markdown{
		"configmap/app": "`configmap/app`", "get | replace": "`get \\| replace`", "": "-", "a`b": "`` a`b ``",
	} {
		if got := printer.Code(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
