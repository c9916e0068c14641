// Command gotest runs go test, prints what go test prints, and records how long each test took:
//
//	gotest run TIMES ARGS…            runs go test with ARGS and writes the times to the file TIMES
//	gotest exec TIMES BINARY PACKAGE ARGS…  does the same with tests that go test -c compiled, in their package's folder
//	gotest slowest TIMES…             prints the slowest tests of such files
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.Exited() {
			os.Exit(exit.ExitCode())
		}
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) >= 2 && args[0] == "run":
		return runTests(args[1], slices.Contains(args[2:], "-v"), exec.Command("go", append([]string{"test", "-json"}, args[2:]...)...))
	case len(args) >= 4 && args[0] == "exec":
		return runTests(args[1], slices.Contains(args[4:], "-v"), compiled(args[2], args[3], args[4:]))
	case len(args) >= 2 && args[0] == "slowest":
		return printSlowest(os.Stdout, args[1:])
	}
	return errors.New("usage: gotest run TIMES ARGS… | gotest exec TIMES BINARY PACKAGE ARGS… | gotest slowest TIMES…")
}

// compiled returns the command that runs compiled tests as go test -json would. Flags of go test are given as to go test.
func compiled(binary, pkg string, args []string) *exec.Cmd {
	flags := []string{"tool", "test2json", "-t", "-p", pkg, binary, "-test.v=test2json"}
	for _, arg := range args {
		if arg == "-v" {
			continue // test2json has them verbose in any case
		}
		if name, ok := strings.CutPrefix(arg, "-"); ok && slices.Contains(ofGoTest, strings.SplitN(name, "=", 2)[0]) {
			arg = "-test." + name
		}
		flags = append(flags, arg)
	}
	test := exec.Command("go", flags...)
	test.Dir = pkg
	return test
}

// ofGoTest are the flags that go test passes on to the tests with another name.
var ofGoTest = []string{"timeout", "parallel", "run", "skip", "count", "short", "failfast"}

// runTests runs tests. Its error is the command's own, so that the status is, too.
func runTests(times string, verbose bool, test *exec.Cmd) error {
	r := &reader{out: os.Stdout, verbose: verbose, sums: test.Dir != ""}
	test.Stderr = os.Stderr
	events, err := test.StdoutPipe()
	if err != nil {
		return err
	}
	if err := test.Start(); err != nil {
		return err
	}
	// Whatever cannot be read, go test must be able to write, or it would hang.
	readErr := r.read(events)
	_, drainErr := io.Copy(io.Discard, events)
	if err := errors.Join(test.Wait(), readErr, drainErr); err != nil {
		return errors.Join(err, writeTimes(times, r.times))
	}
	if r.failed {
		return errors.New("a test failed, and go test says that none did")
	}
	return writeTimes(times, r.times)
}
