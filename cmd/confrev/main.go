// Command confrev is the controller: it makes a configuration change roll out, and roll back, like an image change.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"confrev.io/confrev/internal/operator"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "confrev:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return operator.Command().ExecuteContext(ctx)
}
