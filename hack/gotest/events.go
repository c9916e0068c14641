package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is a line of go test -json: see go doc test2json, and go help buildjson.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// test identifies a test of a run.
type test struct{ pkg, name string }

// reader prints what go test would print without -json, and gathers times.
type reader struct {
	out io.Writer
	// verbose prints the output of passing tests too.
	verbose bool
	// sums prints a line for each package when it has ended, which go test prints by itself and compiled tests do not.
	sums bool
	// failed is true if something failed.
	failed bool
	times  []took

	// pending is the output of tests that have not ended, or whose parents have not.
	pending map[test][]string
	// parents are the tests that have subtests.
	parents map[test]bool
	err     error
}

// read reads events until there are no more.
func (r *reader) read(events io.Reader) error {
	r.pending, r.parents = map[test][]string{}, map[test]bool{}
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.line(line)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(err, r.err)
		}
	}
	r.flush(func(test) bool { return true })
	r.times = slices.DeleteFunc(r.times, func(t took) bool { return r.parents[t.test] })
	return r.err
}

func (r *reader) line(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		// A program that go test runs may write to the same place.
		r.print(string(line))
		return
	}
	r.event(e)
}

func (r *reader) event(e event) {
	t := test{e.Package, e.Test}
	if r.sums && e.Test == "" && (e.Action == "pass" || e.Action == "fail") {
		defer func() {
			r.print(fmt.Sprintf("%s\t%s\t%.3fs\n", map[string]string{"pass": "ok  ", "fail": "FAIL"}[e.Action], e.Package, e.Elapsed))
		}()
	}
	r.failed = r.failed || e.Action == "fail" || e.Action == "build-fail"
	switch {
	case e.Action == "build-output":
		r.print(e.Output)
	case e.Action == "output" && e.Test == "":
		if e.Output != "PASS\n" || r.verbose {
			r.print(e.Output)
		}
	case e.Action == "output":
		if r.verbose || !isProgress(e.Output) {
			r.pending[t] = append(r.pending[t], e.Output)
		}
	case e.Test == "" && e.Action == "fail":
		// What was running when the program ended has no end of its own.
		r.flush(func(t test) bool { return t.pkg == e.Package })
	case e.Test != "":
		r.ended(t, e)
	}
}

// isProgress matches the lines that only go test -v prints.
func isProgress(line string) bool {
	return slices.ContainsFunc([]string{"=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME "}, func(prefix string) bool { return strings.HasPrefix(line, prefix) })
}

func (r *reader) ended(t test, e event) {
	if e.Action != "pass" && e.Action != "fail" && e.Action != "skip" {
		return
	}
	if parent := strings.LastIndex(t.name, "/"); parent >= 0 {
		r.parents[test{t.pkg, t.name[:parent]}] = true
	}
	r.times = append(r.times, took{test: t, seconds: e.Elapsed})
	// What is left out says why.
	if e.Action == "fail" || e.Action == "skip" || r.verbose {
		r.flush(func(other test) bool { return other == t })
	}
	delete(r.pending, t)
}

// flush prints what the chosen tests have printed so far.
func (r *reader) flush(chosen func(test) bool) {
	waiting := slices.SortedFunc(maps.Keys(r.pending), func(a, b test) int { return strings.Compare(a.pkg+" "+a.name, b.pkg+" "+b.name) })
	for _, t := range waiting {
		if chosen(t) {
			r.print(strings.Join(r.pending[t], ""))
			delete(r.pending, t)
		}
	}
}

func (r *reader) print(text string) {
	_, err := fmt.Fprint(r.out, text)
	r.err = errors.Join(r.err, err)
}
