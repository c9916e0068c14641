package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// shown is how many of the slowest tests are printed.
const shown = 20

// took is how long a test took, in seconds, without the time that it waited for its turn.
type took struct {
	test
	seconds float64
}

// writeTimes writes a line for each test: seconds, package, name.
func writeTimes(file string, all []took) error {
	var text bytes.Buffer
	for _, t := range all {
		fmt.Fprintf(&text, "%.2f\t%s\t%s\n", t.seconds, t.pkg, t.name)
	}
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, text.Bytes(), 0o600))
}

func readTimes(file string) (all []took, err error) {
	text, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, text.Close()) }()
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), "\t", 3)
		if len(fields) != 3 {
			return nil, fmt.Errorf("%s: want seconds, package and test: %q", file, lines.Text())
		}
		seconds, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, took{test{fields[1], fields[2]}, seconds})
	}
	return all, lines.Err()
}

// printSlowest prints the slowest tests of all files. A file that is not there is of a part that did not run.
func printSlowest(out io.Writer, files []string) error {
	var all []took
	var sum float64
	for _, file := range files {
		some, err := readTimes(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		all = append(all, some...)
	}
	slices.SortStableFunc(all, func(a, b took) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, t := range all {
		sum += t.seconds
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	most := min(shown, len(all))
	_, err := fmt.Fprintf(table, "The %d slowest of %d tests, which took %.0f s in all (many at a time):\n", most, len(all), sum)
	for _, t := range all[:most] {
		_, lineErr := fmt.Fprintf(table, "%.1f s\t%s\t%s\n", t.seconds, path.Base(t.pkg), t.name)
		err = errors.Join(err, lineErr)
	}
	return errors.Join(err, table.Flush())
}
