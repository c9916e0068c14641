//go:build !linux

package env

import "os/exec"

// Start starts a command. Elsewhere than on Linux, it outlives this process if that is killed.
func Start(cmd *exec.Cmd) error { return cmd.Start() }
