//go:build !linux

package main

import (
	"context"
	"errors"
)

// Elsewhere there is no node: allowsNode says so before any of these is called.

func nodeInit(context.Context, string) error { return errors.New("a real node needs Linux") }

func nodeTrial(context.Context, string, string, string) error {
	return errors.New("a real node needs Linux")
}
