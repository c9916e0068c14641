package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func down(cmd *cobra.Command, l layout, name string) error {
	ctx := cmd.Context()
	if _, err := os.Stat(l.cluster(name)); errors.Is(err, fs.ErrNotExist) {
		say("there is no cluster %q", name)
		return nil
	}
	if err := ensure(ctx, l, "kubectl", "kwokctl"); err != nil {
		return err
	}
	unlock, err := lockClusters(ctx, l)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := newCluster(l, name)
	if err != nil {
		return err
	}
	c.log = l.verbLog("down", name)
	if err := step(ctx, fmt.Sprintf("remove cluster %q", name), c.remove); err != nil {
		return err
	}
	say("cluster %q is removed", name)
	return nil
}

func list(l layout, out io.Writer) error {
	entries, err := os.ReadDir(l.clusters())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list clusters: %w", err)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "NAME\tSTATE\tKUBERNETES\tARGO ROLLOUTS\tREAL NODE\tKUBECONFIG")
	for _, entry := range entries {
		name := entry.Name()
		if !l.exists(name) {
			continue
		}
		version, err := l.kubernetesVersion(name)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", name, clusterState(l, name), version,
			yesNo(livePid(l, name, rolloutsProcess) != 0), yesNo(livePid(l, name, nodeProcess) != 0), l.kubeconfig(name))
	}
	return table.Flush()
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func clusterState(l layout, name string) string {
	switch dead := deadProcesses(l, name); len(dead) {
	case 0:
		return "running"
	case len(clusterProcesses):
		return "stopped"
	default:
		return fmt.Sprintf("%d of %d processes", len(clusterProcesses)-len(dead), len(clusterProcesses))
	}
}
