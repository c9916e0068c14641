package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree writes files below a temporary root, with the style page of this repository, and returns the root.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	page, err := os.ReadFile(filepath.Join("..", "..", stylePage))
	if err != nil {
		t.Fatal(err)
	}
	files[stylePage] = string(page)
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestPhrasesAreFound(t *testing.T) {
	for name, test := range map[string]struct{ path, text, want string }{
		"in a page":                     {"pages/a.md", "# A\n\nFor nobody.\n", `pages/a.md:3: "nobody"`},
		"at the start of a sentence":    {"pages/a.md", "Nobody.\n", `pages/a.md:1: "Nobody"`},
		"in a command's comment":        {"pages/a.md", "```sh\n# for somebody\nls\n```\n", `pages/a.md:2: "somebody"`},
		"across lines of a page":        {"pages/a.md", "Read over\nthe API.\n", `pages/a.md:1: "over the API"`},
		"in a comment":                  {"a.go", "package a\n\n// for somebody\nvar x int\n", `a.go:3: "somebody"`},
		"across lines of a comment":     {"a.go", "package a\n\n// read over\n// the API\nvar x int\n", `a.go:3: "over the API"`},
		"within a function":             {"a.go", "package a\n\nfunc f() {\n\t// anew\n}\n", `a.go:4: "anew"`},
		"in a string literal":           {"a.go", "package a\n\nvar x = \"mend it\"\n", `a.go:3: "mend"`},
		"in a raw string":               {"a.go", "package a\n\nvar x = `a\nmend it`\n", `a.go:4: "mend"`},
		"in a doc comment's first verb": {"a.go", "package a\n\n// f gives one.\nfunc f() {}\n", `a.go:3: "f gives"`},
		"in a doc comment that says is": {"a.go", "package a\n\n// f is one.\nfunc f() int { return 1 }\n", `a.go:3: "f is"`},
		"in a phrasal verb":             {"pages/a.md", "The webhook takes the pin.\n\nIt takes along a change.\n", `pages/a.md:3: "takes along"`},
		"in a template of the chart":    {"charts/c/templates/a.yaml", "a: b # beside\n", `charts/c/templates/a.yaml:1: "beside"`},
		"in the Makefile":               {"Makefile", "a: ## at the most\n", `Makefile:1: "at the most"`},

		"but not in inline code":                  {"pages/a.md", "The user `nobody` is 65534.\n", ""},
		"but not as the name of a user":           {"deploy/Dockerfile", "USER nobody\n", ""},
		"but not in a longer word":                {"pages/a.md", "We recommend it; besides, it works.\n", ""},
		"but not where a comment has the verb":    {"a.go", "package a\n\nfunc f() {\n\t// It gives one.\n}\n", ""},
		"but not where another name has it":       {"a.go", "package a\n\n// A kind is one.\nfunc f() {}\n", ""},
		"but not in a doc comment of a type":      {"a.go", "package a\n\n// T is one.\ntype T int\n", ""},
		"but not in generated pages":              {"docs/reference/A.md", "nobody\n", ""},
		"but not in what tests read as data":      {"internal/x/testdata/a.go", "package a // nobody\n", ""},
		"but not in names, which others rename":   {"a.go", "package a\n\nvar nobody int\n", ""},
		"but not in files that are no one's text": {"a.bin", "nobody", ""},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := check(tree(t, map[string]string{test.path: test.text}))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(found, "\n"); test.want == "" && got != "" || !strings.HasPrefix(got, test.want) || len(found) > 1 {
				t.Errorf("found %q, want %q", found, test.want)
			}
		})
	}
}

func TestAPageWithoutRulesIsAnError(t *testing.T) {
	root := tree(t, map[string]string{})
	if err := os.WriteFile(filepath.Join(root, stylePage), []byte("# Style\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := check(root); err == nil {
		t.Error("no error")
	}
}
