package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const tailLines = 15

// command is a program whose output goes to the end of a log file.
type command struct {
	dir, log, name string
	env, args      []string
	stdin          io.Reader
}

// run runs the command to its end. Its error names the log file and has the file's last lines.
func (c command) run(ctx context.Context) error {
	file, err := openLog(c.log)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	_, _ = fmt.Fprintf(file, "\n# %s: %s %s\n", time.Now().Format(time.RFC3339), c.name, strings.Join(c.args, " "))
	cmd := c.cmd(ctx)
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return withLog(fmt.Errorf("%s: %w", filepath.Base(c.name), err), c.log)
	}
	return nil
}

// output runs the command and returns its standard output.
func (c command) output(ctx context.Context) (string, error) {
	out, err := c.cmd(ctx).Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("%s %s: %w", filepath.Base(c.name), strings.Join(c.args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

func (c command) cmd(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.name, c.args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdin = c.stdin
	// A group of its own, ended as a whole: an interrupted 'go build' must not leave its compilers behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("open a log: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open a log: %w", err)
	}
	return file, nil
}

// withLog adds where the details are, and the last of them.
func withLog(err error, path string) error {
	content, readErr := os.ReadFile(path)
	if readErr != nil {
		return fmt.Errorf("%w (no details: %w)", err, readErr)
	}
	return fmt.Errorf("%w; the last lines of %s:\n%s", err, path, tail(string(content), tailLines))
}

// tail returns the last n lines of text, indented, each cut to a readable length.
func tail(text string, n int) string {
	const width = 400
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	lines = lines[max(0, len(lines)-n):]
	for i, line := range lines {
		if len(line) > width {
			line = line[:width] + "…"
		}
		lines[i] = "    " + line
	}
	return strings.Join(lines, "\n")
}
