package env

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPanics(t *testing.T) {
	c := &Cluster{Dir: t.TempDir()}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(c.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("confrev.log", "level=INFO msg=\"Starting Controller\"\n")
	if err := c.Panics(); err != nil {
		t.Errorf("a log without a panic: %v", err)
	}
	// As controller-runtime and client-go log it, and an earlier process of the same run.
	write("a.log", "level=INFO msg=\"Observed a panic in reconciler: no\"\nlevel=INFO msg=\"Starting Controller\"\n")
	write("b.log", "level=ERROR msg=\"Observed a panic\" panic=no\n")
	err := c.Panics()
	if err == nil || strings.Count(err.Error(), "recovered from a panic") != 2 || strings.Contains(err.Error(), "confrev.log") {
		t.Errorf("two logs with panics: %v", err)
	}
}
