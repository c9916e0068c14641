package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// module writes a Go module of one package with these tests, and makes it the working directory.
func module(t *testing.T, tests string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.com/m\n\ngo 1.26\n", "m_test.go": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

// output runs a function and returns what it wrote to standard output.
func output(t *testing.T, do func() error) (string, error) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stdout
	os.Stdout = file
	defer func() { os.Stdout = before }()
	failure := do()
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text), failure
}

const tests = `package m
import ("fmt"; "os"; "testing"; "time")
func TestMain(m *testing.M) { fmt.Fprintln(os.Stderr, "said by main"); os.Exit(m.Run()) }
func TestPasses(t *testing.T) { t.Log("quiet"); time.Sleep(30*time.Millisecond) }
func TestParent(t *testing.T) { t.Run("sub", func(t *testing.T) { t.Log("quiet too") }) }
`

func TestRun(t *testing.T) {
	failing := "func TestFails(t *testing.T) { t.Run(\"inner\", func(t *testing.T) { t.Error(\"broken\") }) }\n"
	for name, tt := range map[string]struct {
		tests, args string
		fails       bool
		want, not   []string
	}{
		"all pass":             {tests: tests, want: []string{"said by main\n", "ok  \texample.com/m\t"}, not: []string{"quiet", "=== RUN", "PASS"}},
		"verbose":              {tests: tests, args: "-v", want: []string{"quiet\n", "--- PASS: TestPasses", "ok  \texample.com/m\t"}},
		"one fails":            {tests: tests + failing, fails: true, want: []string{"broken\n", "--- FAIL: TestFails/inner", "--- FAIL: TestFails (", "FAIL\texample.com/m\t"}, not: []string{"quiet", "=== RUN"}},
		"a panic":              {tests: tests + "func TestX(t *testing.T) { panic(\"gone wrong\") }\n", fails: true, want: []string{"panic: gone wrong", "FAIL\texample.com/m\t"}},
		"one is left out":      {tests: tests + "func TestX(t *testing.T) { t.Skip(\"not here\") }\n", want: []string{"not here", "--- SKIP: TestX"}, not: []string{"quiet"}},
		"an exit":              {tests: tests + "func TestX(t *testing.T) { fmt.Println(\"last words\"); os.Exit(3) }\n", fails: true, want: []string{"last words", "FAIL\texample.com/m\t"}},
		"takes too long":       {tests: tests + "func TestX(t *testing.T) { time.Sleep(time.Hour) }\n", args: "-timeout=1s", fails: true, want: []string{"test timed out after 1s", "FAIL\texample.com/m\t"}},
		"it does not compile":  {tests: tests + "func TestX(t *testing.T) { nothing() }\n", fails: true, want: []string{"undefined: nothing", "[build failed]"}},
		"a flag that is wrong": {tests: tests, args: "-parallel=none", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			module(t, tt.tests)
			got, err := output(t, func() error { return run(append([]string{"run", "times"}, strings.Fields(tt.args)...)) })
			if (err != nil) != tt.fails {
				t.Errorf("error %v, want one: %t\n%s", err, tt.fails, got)
			}
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("it lacks %q:\n%s", want, got)
				}
			}
			for _, not := range tt.not {
				if strings.Contains(got, not) {
					t.Errorf("it has %q:\n%s", not, got)
				}
			}
		})
	}
}

// Compiled tests are shown, and their status is theirs, as go test does both.
func TestExec(t *testing.T) {
	failing := "func TestFails(t *testing.T) { t.Error(\"broken\") }\n"
	for name, tt := range map[string]struct {
		tests, flag string
		fails       bool
		want        []string
	}{
		"all pass":  {tests: tests, flag: "-count=1", want: []string{"said by main\n", "ok  \tsub\t"}},
		"one fails": {tests: tests + failing, flag: "-count=1", fails: true, want: []string{"broken\n", "--- FAIL: TestFails (", "FAIL\tsub\t"}},
		"left out":  {tests: tests + failing, flag: "-run=TestPasses", want: []string{"ok  \tsub\t"}},
		"verbose":   {tests: tests, flag: "-v", want: []string{"quiet\n", "--- PASS: TestPasses", "ok  \tsub\t"}},
	} {
		t.Run(name, func(t *testing.T) {
			module(t, tt.tests)
			binary := filepath.Join(t.TempDir(), "m.test")
			if out, err := exec.Command("go", "test", "-c", "-o", binary).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if err := os.Mkdir("sub", 0o700); err != nil {
				t.Fatal(err)
			}
			got, err := output(t, func() error { return run([]string{"exec", "times", binary, "sub", tt.flag}) })
			if (err != nil) != tt.fails {
				t.Errorf("error %v, want one: %t\n%s", err, tt.fails, got)
			}
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("it lacks %q:\n%s", want, got)
				}
			}
			if times, err := readTimes("times"); err != nil || len(times) == 0 {
				t.Errorf("times are %v, %v", times, err)
			}
		})
	}
}

// A test with subtests is as slow as these: only they are counted.
func TestSlowest(t *testing.T) {
	module(t, tests)
	if _, err := output(t, func() error { return run([]string{"run", "times"}) }); err != nil {
		t.Fatal(err)
	}
	if err := writeTimes("others", []took{{test{"example.com/n", "TestSlow"}, 70}}); err != nil {
		t.Fatal(err)
	}
	got, err := output(t, func() error { return run([]string{"slowest", "times", "others", "of-a-part-that-did-not-run"}) })
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, line := range strings.Split(strings.TrimSpace(got), "\n")[1:] {
		names = append(names, strings.Join(strings.Fields(line)[2:], " "))
	}
	if diff := cmp.Diff([]string{"n TestSlow", "m TestPasses", "m TestParent/sub"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, got)
	}
	if !strings.HasPrefix(got, "The 3 slowest of 3 tests, which took 70 s in all") {
		t.Errorf("it says %s", got)
	}
}

func TestMalformedTimesAreErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "times")
	for _, text := range []string{"x", "x\ty\tz"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run([]string{"slowest", file}); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
