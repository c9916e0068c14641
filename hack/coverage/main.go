// Command coverage runs the tests of some packages and prints what share of their statements they execute, together:
//
//	coverage LEAST PACKAGE…
//
// It lists the functions of which less than LEAST percent is executed, and fails if that is so of a whole package.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "coverage:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) < 2 {
		return errors.New("usage: coverage LEAST PACKAGE…")
	}
	least, err := strconv.ParseFloat(args[0], 64)
	if err != nil {
		return fmt.Errorf("%s is not a percentage", args[0])
	}
	dir, err := os.MkdirTemp("", "coverage-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	profile := filepath.Join(dir, "profile")
	packages := args[1:]
	test := exec.Command("go", append([]string{"test", "-coverprofile", profile, "-coverpkg", strings.Join(packages, ",")}, packages...)...)
	if said, err := test.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, said)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return err
	}
	functions, err := exec.Command("go", "tool", "cover", "-func", profile).Output()
	if err != nil {
		return fmt.Errorf("go tool cover: %w", err)
	}
	shares, err := read(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return errors.Join(printPackages(out, shares, least), printFunctions(out, functions, least))
}

// share is how many of so many statements are executed.
type share struct{ executed, all int }

func (s share) percent() float64 { return 100 * float64(s.executed) / float64(max(1, s.all)) }

// block is a piece of a file without branches, as a profile names it.
type block struct {
	file, at   string
	statements int
}

// read adds up a profile by package. Of a block that several packages' tests know of, one execution is enough.
func read(profile io.Reader) (map[string]share, error) {
	executed := map[block]bool{}
	lines := bufio.NewScanner(profile)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 {
			// The first line names the mode.
			continue
		}
		file, at, found := strings.Cut(fields[0], ":")
		statements, err := strconv.Atoi(fields[1])
		if !found || err != nil {
			return nil, fmt.Errorf("%q is not a line of a profile", lines.Text())
		}
		b := block{file, at, statements}
		executed[b] = executed[b] || fields[2] != "0"
	}
	shares := map[string]share{}
	for b, is := range executed {
		s := shares[path.Dir(b.file)]
		s.all += b.statements
		if is {
			s.executed += b.statements
		}
		shares[path.Dir(b.file)] = s
	}
	return shares, lines.Err()
}

// printPackages prints a line for each package, and returns an error that names those below what is wanted.
func printPackages(out io.Writer, shares map[string]share, least float64) error {
	var below []string
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		s := shares[name]
		if _, err := fmt.Fprintf(out, "%5.1f %%  %s, %d statements\n", s.percent(), name, s.all); err != nil {
			return err
		}
		if s.percent() < least {
			below = append(below, path.Base(name))
		}
	}
	if below == nil {
		return nil
	}
	return fmt.Errorf("less than %v %% of the statements are executed of %s", least, strings.Join(below, ", "))
}

// printFunctions prints those lines of go tool cover that are below what is wanted.
func printFunctions(out io.Writer, functions []byte, least float64) error {
	for line := range strings.Lines(string(functions)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] == "total:" {
			continue
		}
		percent, err := strconv.ParseFloat(strings.TrimSuffix(fields[2], "%"), 64)
		if err != nil {
			return fmt.Errorf("%q is not a line of go tool cover", line)
		}
		if percent >= least {
			continue
		}
		if _, err := fmt.Fprintf(out, "        %5.1f %%  %s %s\n", percent, fields[0], fields[1]); err != nil {
			return err
		}
	}
	return nil
}
