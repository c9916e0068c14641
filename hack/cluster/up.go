package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const maxNodes = 1000

type upOptions struct {
	name       string
	nodes      int
	nodesGiven bool
	port       int // 0: a free one
	rollouts   bool
	realNode   bool
	kubernetes kubernetes
}

func (o upOptions) validate() error {
	if err := validateName(o.name); err != nil {
		return err
	}
	if o.nodes < 0 || o.nodes > maxNodes || o.nodes == 0 && !o.realNode {
		return fmt.Errorf("--nodes=%d: use 1 to %d, or 0 with --real-node", o.nodes, maxNodes)
	}
	if o.port != 0 && (o.port < 1024 || o.port > 65535) {
		return fmt.Errorf("--port=%d: use 1024 to 65535, or 0 for a free one", o.port)
	}
	if o.realNode && o.kubernetes != defaultKubernetes {
		return fmt.Errorf("--real-node: its kubelet is of Kubernetes %s: leave out --kubernetes", defaultKubernetes.minor)
	}
	return nil
}

func up(ctx context.Context, l layout, o upOptions, out io.Writer) error {
	begin := time.Now()
	o.keepExtras(l)
	// Before minutes of building.
	if err := l.checkKubernetes(o.name, o.kubernetes); err != nil {
		return err
	}
	p, err := prepare(ctx, l, o)
	if err != nil {
		return err
	}
	unlock, err := lockClusters(ctx, l)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := newCluster(l, o.name)
	if err != nil {
		return err
	}
	if err := c.bring(ctx, o, p.download); err != nil {
		return err
	}
	if o.rollouts {
		if err := c.startRollouts(ctx); err != nil {
			return err
		}
	}
	if o.realNode {
		if err := c.startNode(ctx, p.node); err != nil {
			return err
		}
	}
	return printReady(out, c, time.Since(begin))
}

// keepExtras restores, after a reboot, what a cluster had: Argo Rollouts, a real node.
func (o *upOptions) keepExtras(l layout) {
	_, err := os.Stat(l.log(o.name, rolloutsProcess))
	o.rollouts = o.rollouts || err == nil
	o.realNode = o.realNode || l.hasNode(o.name)
}

// preparation is what up knows once all binaries are there.
type preparation struct {
	download bool      // kwokctl downloads those of the control plane
	node     nodeTools // nil without a real node
}

func prepare(ctx context.Context, l layout, o upOptions) (p preparation, err error) {
	if o.realNode {
		// First of all, since a machine may not allow it: better to know now than after minutes of building.
		if p.node, err = checkNode(ctx, l); err != nil {
			return p, err
		}
	}
	if p.download, err = controlPlaneSource(ctx, l, o.kubernetes); err != nil {
		return p, err
	}
	if o.rollouts {
		if err := ensure(ctx, l, "rollouts-controller"); err != nil {
			return p, err
		}
	}
	if o.realNode {
		err = ensureNode(ctx, l, p.node)
	}
	return p, err
}

// lockClusters keeps two runs from choosing the same free ports, or from working on one cluster.
func lockClusters(ctx context.Context, l layout) (unlock func(), err error) {
	if err := os.MkdirAll(l.state, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of clusters: %w", err)
	}
	return lock(ctx, filepath.Join(l.state, "clusters.lock"), "another run works on clusters")
}

// bring takes the cluster from whatever state it is in to one that works.
func (c cluster) bring(ctx context.Context, o upOptions, download bool) error {
	if err := c.start(ctx, o, download); err != nil {
		return err
	}
	mark, err := os.ReadFile(c.prepared(c.name))
	fresh := errors.Is(err, os.ErrNotExist)
	// A cluster of an older tree gets this tree's stages.
	if string(mark) != stages {
		if err := c.applyStages(ctx); err != nil {
			return err
		}
	}
	if fresh && o.nodes > 0 || !fresh && o.nodesGiven {
		if err := c.scaleNodes(ctx, o.nodes); err != nil {
			return err
		}
	}
	if err := c.waitUsable(ctx); err != nil {
		return err
	}
	if err := os.WriteFile(c.prepared(c.name), []byte(stages), 0o644); err != nil {
		return fmt.Errorf("mark the cluster as prepared: %w", err)
	}
	return nil
}

// start makes the cluster's processes run.
func (c cluster) start(ctx context.Context, o upOptions, download bool) error {
	if !c.exists(c.name) {
		return c.create(ctx, o, download)
	}
	// Again, since another run may have made it meanwhile.
	if err := c.checkKubernetes(c.name, o.kubernetes); err != nil {
		return err
	}
	dead := deadProcesses(c.layout, c.name)
	if len(dead) == 0 && c.ready(ctx) {
		say("cluster %q already runs", c.name)
		return nil
	}
	say("cluster %q exists, but is %s: starting what is missing", c.name, clusterState(c.layout, c.name))
	err := c.restart(ctx)
	if err == nil || ctx.Err() != nil {
		return err
	}
	say("%v\ncluster %q cannot be started again: creating it again, without the objects that it had", err, c.name)
	if err := c.remove(ctx); err != nil {
		return err
	}
	return c.create(ctx, o, download)
}

func printReady(out io.Writer, c cluster, took time.Duration) error {
	path := c.kubeconfig(c.name)
	_, err := fmt.Fprintf(out, `cluster %q is ready (%s)

  export KUBECONFIG=%s
  %s get nodes

  its logs:          %s
  keep pods unready: hack/cluster/README.md
  remove it:         %s down --name %s
`, c.name, took.Round(100*time.Millisecond), path, c.kubectl, filepath.Dir(c.auditLog(c.name)), project.command, c.name)
	return err
}
