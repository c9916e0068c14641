package env

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// PreviousChart is the archive of an earlier version of the chart; test/e2e/testdata/previous/README.md says which.
const PreviousChart = "test/e2e/testdata/previous/confrev.tgz"

// BuildPrevious builds the programs of that version, and returns the folder that they are in.
func (c *Cluster) BuildPrevious(ctx context.Context) (folder string, err error) {
	source, folder := filepath.Join(c.Dir, "previous-source"), filepath.Join(c.Dir, "previous")
	run := func(dir, name string, args ...string) error {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build the previous version: %s: %w\n%s", name, err, out)
		}
		return nil
	}
	if err := os.MkdirAll(source, 0o755); err != nil {
		return "", err
	}
	if err := run(Root(), "tar", "-xzf", filepath.Join("test", "e2e", "testdata", "previous", "source.tgz"), "-C", source); err != nil {
		return "", err
	}
	return folder, run(source, "go", "build", "-o", folder+"/", "./cmd/confrev", "./cmd/kubectl-confrev")
}
