package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each value has a row, with its default and its comment; groups with a comment have one too; long examples stay where they are.
func TestChartPage(t *testing.T) {
	chart := t.TempDir()
	for name, text := range map[string]string{
		"Chart.yaml": "description: A chart",
		"values.yaml": `
# Of all objects.
labels: {a: b}
# A group
# of values.
group:
  # One of: a|b
  name: ""
  list: [x, 1]
# Many things. For example:
# - one
# - two
many: []
`,
	} {
		if err := os.WriteFile(filepath.Join(chart, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	page, err := chartPage(chart)
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(string(page), "|---|---|---|\n")
	want := "| `labels` | `{a: b}` | Of all objects. |\n" +
		"| `group` | | A group of values. |\n" +
		"| `group.name` | `\"\"` | One of: a\\|b |\n" +
		"| `group.list` | `[x, 1]` |  |\n" +
		"| `many` | `[]` | Many things. See values.yaml for an example. |\n"
	if rows != want || !strings.Contains(string(page), "\nA chart. ") {
		t.Errorf("got\n%s\nwant\n%s", page, want)
	}
}
