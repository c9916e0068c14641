package env

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A program that is built with the overlay sees another clock. To build confrev so takes minutes, so this is a small one.
func TestClockOverlayReplacesTheClock(t *testing.T) {
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay, err := clockOverlay(strings.TrimSpace(string(root)), dir)
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(dir, "main.go")
	const program = `package main

import (
	"fmt"
	"time"
)

func main() {
	fmt.Print(time.Now().Unix())
}
`
	if err := os.WriteFile(source, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	clock := Clock{filepath.Join(dir, "ahead")}
	binary := filepath.Join(dir, "program")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		if err := clock.Set(ahead); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), binary)
		cmd.Env = append(os.Environ(), clockVariable+"="+clock.file)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		seconds, err := strconv.ParseInt(string(out), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if off := time.Until(time.Unix(seconds, 0)) - ahead; off.Abs() > time.Minute {
			t.Errorf("the clock is to be %s ahead, and is %s", ahead, ahead+off)
		}
	}
}
