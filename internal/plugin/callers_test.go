package plugin

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Only these functions hand anything to a printer: one for objects, which masks, and two for reports, which have no objects.
func TestObjectsArePrintedInOnePlace(t *testing.T) {
	callers := callersIn(t, func(call *ast.CallExpr) bool {
		s, is := call.Fun.(*ast.SelectorExpr)
		return is && s.Sel.Name == "PrintObj"
	})
	want := []string{"change/print.go printObject", "printer/output.go Print", "printer/output.go PrintTable"}
	if !slices.Equal(callers, want) {
		t.Errorf("printers are called by %q, want %q", callers, want)
	}
}

// Only these write around the screen: formats for programs, rendered manifests, the diff program, and confrev's own colours.
func TestOnlyFewWriteAroundTheScreen(t *testing.T) {
	callers := callersIn(t, func(call *ast.CallExpr) bool {
		switch function := call.Fun.(type) {
		case *ast.Ident:
			return function.Name == "Raw"
		case *ast.SelectorExpr:
			return function.Sel.Name == "Raw"
		}
		return false
	})
	want := []string{"change/print.go printObject", "inspect/difffiles.go runDiff", "inspect/status.go clear", "pipeline/render.go Run",
		"printer/output.go Print", "printer/output.go PrintTable", "printer/output.go Terminal", "printer/screen.go Screened"}
	if !slices.Equal(callers, want) {
		t.Errorf("around the screen write %q, want %q", callers, want)
	}
}

// callersIn returns the functions of the plugin, behind their files, that make certain calls. Tests are left out.
func callersIn(t *testing.T, chosen func(*ast.CallExpr) bool) []string {
	t.Helper()
	names, err := filepath.Glob("*/*.go")
	own, ownErr := filepath.Glob("*.go")
	if err := errors.Join(err, ownErr); err != nil {
		t.Fatal(err)
	}
	var callers []string
	for _, name := range append(names, own...) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			function, is := declaration.(*ast.FuncDecl)
			if !is {
				continue
			}
			ast.Inspect(function, func(n ast.Node) bool {
				if call, is := n.(*ast.CallExpr); is && chosen(call) {
					callers = append(callers, name+" "+function.Name.Name)
				}
				return true
			})
		}
	}
	slices.Sort(callers)
	return slices.Compact(callers)
}
