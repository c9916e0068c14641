//go:build !linux

package main

import (
	"context"
	"errors"
	"os/exec"
)

// Elsewhere there is no node: allowsNode says so before any of these is called.

func isolate(*exec.Cmd) {}

func nodeInit(context.Context, string, nodeTools) error { return errors.New("a real node needs Linux") }

func nodeTrial(context.Context, string, string) error { return errors.New("a real node needs Linux") }

func removeCgroups(context.Context, string) error { return nil }

func makeCgroup(string) error { return nil }
