package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	rolloutsProcess   = "rollouts-controller"
	rolloutsNamespace = "argo-rollouts"
)

// startRollouts installs Argo Rollouts' CRDs and runs its controller next to the cluster.
func (c cluster) startRollouts(ctx context.Context) error {
	if livePid(c.layout, c.name, rolloutsProcess) != 0 {
		say("Argo Rollouts already runs")
		return nil
	}
	if err := c.installRollouts(ctx); err != nil {
		return fmt.Errorf("install Argo Rollouts: %w", err)
	}
	binary, err := c.binary("rollouts-controller")
	if err != nil {
		return err
	}
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	metrics, health := strconv.Itoa(ports[0]), strconv.Itoa(ports[1])
	err = startProcess(c.layout, c.name, rolloutsProcess, binary, "--kubeconfig", c.kubeconfig(c.name),
		"--namespace", rolloutsNamespace, "--leader-elect=false", "--metricsPort", metrics, "--healthzPort", health)
	if err != nil {
		return err
	}
	return step(ctx, "start Argo Rollouts", func(ctx context.Context) error {
		return c.waitRollouts(ctx, net.JoinHostPort("127.0.0.1", health))
	})
}

// installRollouts applies the CRDs and the namespace, and waits until the API server serves the kinds.
func (c cluster) installRollouts(ctx context.Context) error {
	dir, err := c.sourceDir(ctx, moduleRollouts)
	if err != nil {
		return err
	}
	crds, err := filepath.Glob(filepath.Join(dir, "manifests", "crds", "*-crd.yaml"))
	if err != nil || len(crds) == 0 {
		return errors.Join(errors.New("its module has no manifests/crds/*-crd.yaml"), err)
	}
	// On the server's side, since the CRDs are too large for the annotation that kubectl would write.
	apply := c.kubectlCommand("apply", "--server-side", "--force-conflicts", "-f", strings.Join(crds, ","))
	namespace := c.kubectlCommand("apply", "-f", "-")
	namespace.stdin = strings.NewReader(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + rolloutsNamespace + `"}}`)
	if err := errors.Join(apply.run(ctx), namespace.run(ctx)); err != nil {
		return err
	}
	// kubectl wait fails at once if an object has no conditions yet.
	established := c.kubectlCommand("wait", "--for", "condition=Established", "--timeout", "10s", "-f", strings.Join(crds, ","))
	var last error
	err = poll(ctx, startTimeout, func() (bool, error) { last = established.run(ctx); return last == nil, nil })
	return errors.Join(err, last)
}

func (c cluster) waitRollouts(ctx context.Context, address string) error {
	log := c.layout.log(c.name, rolloutsProcess)
	err := poll(ctx, startTimeout, func() (bool, error) {
		if livePid(c.layout, c.name, rolloutsProcess) == 0 {
			return false, withLog(errors.New("the controller ended"), log)
		}
		connection, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return false, nil //nolint:nilerr // not yet listening
		}
		return true, connection.Close()
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return withLog(errors.New("the controller is not healthy after "+startTimeout.String()), log)
	}
	return err
}

func (c cluster) stopRollouts(ctx context.Context) error {
	if err := stopProcess(ctx, c.layout, c.name, rolloutsProcess); err != nil {
		return err
	}
	if err := os.Remove(c.pid(c.name, rolloutsProcess)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("forget Argo Rollouts: %w", err)
	}
	return nil
}
