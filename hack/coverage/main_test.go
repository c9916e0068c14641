package main

import (
	"strings"
	"testing"
)

const profile = `mode: set
example.com/a/one.go:3.10,5.2 3 1
example.com/a/one.go:7.10,9.2 1 0
example.com/a/one.go:7.10,9.2 1 1
example.com/a/two.go:1.1,2.2 6 0
example.com/b/b.go:1.1,2.2 2 1
`

func TestStatementsAreCountedOnceForEachPackage(t *testing.T) {
	shares, err := read(strings.NewReader(profile))
	if err != nil {
		t.Fatal(err)
	}
	if shares["example.com/a"] != (share{4, 10}) || shares["example.com/b"] != (share{2, 2}) || len(shares) != 2 {
		t.Errorf("got %v", shares)
	}
}

func TestPackagesBelowWhatIsWantedAreAnError(t *testing.T) {
	shares := map[string]share{"example.com/a": {4, 10}, "example.com/b": {2, 2}}
	var out strings.Builder
	err := printPackages(&out, shares, 95)
	if err == nil || !strings.HasSuffix(err.Error(), "of a") {
		t.Errorf("the error is %v", err)
	}
	if want := " 40.0 %  example.com/a, 10 statements\n100.0 %  example.com/b, 2 statements\n"; out.String() != want {
		t.Errorf("printed %q", out.String())
	}
	if err := printPackages(&out, shares, 40); err != nil {
		t.Error(err)
	}
}

func TestFunctionsBelowWhatIsWantedAreListed(t *testing.T) {
	var out strings.Builder
	text := "example.com/a/one.go:3:\tGood\t100.0%\nexample.com/a/one.go:7:\tPoor\t50.0%\ntotal:\t(statements)\t60.0%\n"
	if err := printFunctions(&out, []byte(text), 95); err != nil {
		t.Fatal(err)
	}
	if want := "         50.0 %  example.com/a/one.go:7: Poor\n"; out.String() != want {
		t.Errorf("printed %q", out.String())
	}
}

func TestWhatIsNoProfileIsAnError(t *testing.T) {
	if _, err := read(strings.NewReader("a b c\n")); err == nil {
		t.Error("no error")
	}
	if err := printFunctions(&strings.Builder{}, []byte("a b c\n"), 95); err == nil {
		t.Error("no error")
	}
	if err := run([]string{"95"}, &strings.Builder{}); err == nil {
		t.Error("no error without packages")
	}
}
