// Command gotest runs go test, prints what go test prints, and records how long each test took:
//
//	gotest run TIMES ARGS…   runs go test with ARGS and writes the times to the file TIMES
//	gotest slowest TIMES…    prints the slowest tests of such files
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
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
		return runTests(args[1], args[2:])
	case len(args) >= 2 && args[0] == "slowest":
		return printSlowest(os.Stdout, args[1:])
	}
	return errors.New("usage: gotest run TIMES ARGS… | gotest slowest TIMES…")
}

// runTests runs go test. Its error is go test's own, so that the status is, too.
func runTests(times string, args []string) error {
	r := &reader{out: os.Stdout, verbose: slices.Contains(args, "-v")}
	test := exec.Command("go", append([]string{"test", "-json"}, args...)...)
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
