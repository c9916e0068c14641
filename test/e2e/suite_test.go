//go:build e2e

package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
)

// suite chooses one half of the tests, so that the halves can run at the same time, each on a cluster of its own. Without it all
// run, one half after the other.
var suite = flag.String("suite", "", "run only the tests of alone_*_test.go (alone), or only the others (shared)")

// choose leaves the other half out.
func choose() error {
	var alone bool
	switch *suite {
	case "":
		return nil
	case "alone":
		alone = true
	case "shared":
	default:
		return fmt.Errorf("-suite is %q, not alone or shared", *suite)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		return err
	}
	skipped := []string{}
	for _, file := range files {
		if strings.HasPrefix(file, "alone_") == alone {
			continue
		}
		tests, err := testsOf(file)
		if err != nil {
			return err
		}
		skipped = append(skipped, tests...)
	}
	// What the command line leaves out stays out.
	skip := flag.Lookup("test.skip").Value
	return skip.Set(cmp.Or(skip.String(), "^$") + "|^(" + strings.Join(skipped, "|") + ")$")
}

// isTest matches the names of tests.
var isTest = regexp.MustCompile(`^Test[^a-z]`)

func testsOf(file string) (names []string, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && isTest.MatchString(f.Name.Name) && f.Name.Name != "TestMain" {
			names = append(names, f.Name.Name)
		}
	}
	return names, nil
}
