// Command cluster gives any machine with Go a real Kubernetes control plane for tests and demos: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler, with KWOK playing nodes and kubelets, and on request the Argo Rollouts
// controller. Everything is built from Go modules (hack/modules) and cached. See README.md in this folder.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(run())
}

// run runs the command and returns the exit status.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newCommand().ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "cluster: interrupted; the same command continues from here")
		return 130
	}
	fmt.Fprintf(os.Stderr, "cluster: %v\n", err)
	return 1
}
