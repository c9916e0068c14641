// Command cluster gives any machine with Go a real Kubernetes control plane for tests and demos: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler, with KWOK playing nodes and kubelets, and on request the Argo Rollouts
// controller. Everything is built from Go modules (hack/modules) and cached. See README.md beside this file.
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newCommand().ExecuteContext(ctx)
	switch {
	case err == nil:
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "cluster: interrupted; the same command goes on from here")
		os.Exit(130)
	default:
		fmt.Fprintf(os.Stderr, "cluster: %v\n", err)
		os.Exit(1)
	}
}
