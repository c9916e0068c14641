//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long the plugin may take to end, on a machine that is busy.
const patience = time.Minute

// TestMain runs the plugin instead of the tests if a test has started this process.
func TestMain(m *testing.M) {
	if os.Getenv("CONFREV_TEST_PLUGIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

// start starts the plugin, and kills it if it has not ended when it should have.
func start(t *testing.T, args ...string) (plugin *exec.Cmd, errOut *bytes.Buffer) {
	t.Helper()
	plugin, errOut = exec.Command(os.Args[0], args...), &bytes.Buffer{}
	plugin.Env, plugin.Stderr = append(os.Environ(), "CONFREV_TEST_PLUGIN=1"), errOut
	killer := time.AfterFunc(patience, func() { _ = plugin.Process.Kill() })
	t.Cleanup(func() { killer.Stop() })
	return plugin, errOut
}

// Ctrl-C ends the wait for manifests that no one sends.
func TestRenderIsInterrupted(t *testing.T) {
	plugin, errOut := start(t, "render")
	in, err := plugin.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := plugin.Start(); err != nil {
		t.Fatal(err)
	}
	// More than fits into a pipe: once it is written, the plugin reads.
	if _, err := in.Write(bytes.Repeat([]byte("# nothing\n"), 1<<17)); err != nil {
		t.Fatal(err)
	}
	if err := plugin.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := plugin.Wait(); plugin.ProcessState.ExitCode() != 1 || errOut.String() != "error: interrupted\n" {
		t.Errorf("%v: %s", err, errOut)
	}
}

// A second signal ends it wherever it is, even where nothing looks at the first.
func TestASecondSignalKills(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "config")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	plugin, errOut := start(t, "render", "--config", fifo)
	if err := plugin.Start(); err != nil {
		t.Fatal(err)
	}
	// This waits until the plugin reads.
	held, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	ended := make(chan error, 1)
	go func() { ended <- plugin.Wait() }()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			_ = plugin.Process.Signal(os.Interrupt)
		case err := <-ended:
			if err == nil || !strings.Contains(err.Error(), "interrupt") {
				t.Errorf("%v: %s", err, errOut)
			}
			return
		}
	}
}
