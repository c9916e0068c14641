package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// rule is a phrase to avoid, and what the style page writes instead.
type rule struct {
	phrase  *regexp.Regexp
	instead string
}

// rules are those of the style page.
type rules struct {
	// words are phrases that are avoided everywhere.
	words []rule
	// docs are verbs that are avoided after the function's name, with which its doc comment begins.
	docs []rule
}

var (
	row    = regexp.MustCompile("(?m)^\\| (`[^|]+`) \\| ([^|]+) \\|$")
	quoted = regexp.MustCompile("`([^`]+)`")
)

// parseRules reads the tables of the style page whose first column has phrases in backticks. One that begins with "X " is for doc
// comments of functions: X is the function's name.
func parseRules(page string) (rules, error) {
	var all rules
	for _, match := range row.FindAllStringSubmatch(page, -1) {
		for _, phrase := range quoted.FindAllStringSubmatch(match[1], -1) {
			if verb, ok := strings.CutPrefix(phrase[1], "X "); ok {
				all.docs = append(all.docs, rule{regexp.MustCompile(`^\w+ ` + pattern(verb)), match[2]})
			} else {
				all.words = append(all.words, rule{regexp.MustCompile(`(?i)` + pattern(phrase[1])), match[2]})
			}
		}
	}
	if len(all.words) < 20 || len(all.docs) == 0 {
		return rules{}, fmt.Errorf("found only %d phrases and %d verbs in the tables of %s", len(all.words), len(all.docs), stylePage)
	}
	return all, nil
}

// between is what separates the words of a phrase, where a line of a comment ends too.
var between = regexp.MustCompile(`[\s/#*]+`)

func pattern(phrase string) string {
	return `\b` + strings.Join(strings.Fields(regexp.QuoteMeta(phrase)), between.String()) + `\b`
}

// file returns what is to be avoided in a file, a line for each place.
func (r rules) file(root, path string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return nil, err
	}
	text = user.ReplaceAllFunc(text, func(user []byte) []byte { return bytes.Repeat([]byte("x"), len(user)) })
	switch filepath.Ext(path) {
	case ".go":
		return r.source(path, text)
	case ".md":
		return find(r.words, path, 1, withoutInlineCode(string(text))), nil
	}
	return find(r.words, path, 1, string(text)), nil
}

// user is the name of a user whose name is one of the words.
var user = regexp.MustCompile(`(?:--user|USER) \w+`)

// find returns the places in a text that starts at a line of a file.
func find(rules []rule, path string, line int, text string) []string {
	var found []string
	for _, rule := range rules {
		for _, at := range rule.phrase.FindAllStringIndex(text, -1) {
			where := line + strings.Count(text[:at[0]], "\n")
			phrase := between.ReplaceAllString(text[at[0]:at[1]], " ")
			found = append(found, fmt.Sprintf("%s:%d: %q: write %s", path, where, phrase, rule.instead))
		}
	}
	return found
}

// inlineCode is what a page sets as code within a line. A block of code is checked: its comments are prose.
var inlineCode = regexp.MustCompile("`[^`\n]+`")

func withoutInlineCode(text string) string {
	return inlineCode.ReplaceAllStringFunc(text, func(code string) string { return strings.Repeat("·", len(code)) })
}

// source checks the comments and the string literals of a Go file, and how its doc comments begin.
func (r rules) source(path string, text []byte) ([]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []string
	at := func(node ast.Node) int { return files.Position(node.Pos()).Line }
	for _, group := range file.Comments {
		found = append(found, find(r.words, path, at(group), string(text[group.Pos()-1:group.End()-1]))...)
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				found = append(found, find(r.words, path, at(n), n.Value)...)
			}
		case *ast.FuncDecl:
			if strings.HasPrefix(n.Doc.Text(), n.Name.Name+" ") {
				found = append(found, find(r.docs, path, at(n.Doc), n.Doc.Text())...)
			}
		}
		return true
	})
	return found, nil
}
