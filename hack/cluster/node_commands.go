package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func newNodeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "node", Short: "The real node of a cluster ('up --real-node')"}
	cmd.AddCommand(
		newNodeVerb("start", "Start the real node of a cluster and wait until it is ready", startNode),
		newNodeVerb("stop", "Stop the real node: kubelet, containerd and all containers, as a reboot does", stopNode),
		newNodeImportCommand(), newNodeKillCommand(), newNodeCheckCommand(), newNodeInitCommand(), newNodeTrialCommand())
	return cmd
}

func newNodeVerb(verb, short string, do func(context.Context, layout, cluster) error) *cobra.Command {
	return newNamedCommand(verb, short, func(cmd *cobra.Command, l layout, name string) error {
		if !l.hasNode(name) {
			return fmt.Errorf("cluster %q has no real node: use '%s up --real-node --name %s'", name, project.command, name)
		}
		c, err := newCluster(l, name)
		if err != nil {
			return err
		}
		c.log = l.verbLog("node-"+verb, name)
		return do(cmd.Context(), l, c)
	})
}

func startNode(ctx context.Context, l layout, c cluster) error {
	tools, err := checkNode(ctx, l)
	if err != nil {
		return err
	}
	if err := ensureNode(ctx, l, tools); err != nil {
		return err
	}
	unlock, err := lockClusters(ctx, l)
	if err != nil {
		return err
	}
	defer unlock()
	return c.startNode(ctx, tools)
}

func stopNode(ctx context.Context, l layout, c cluster) error {
	unlock, err := lockClusters(ctx, l)
	if err != nil {
		return err
	}
	defer unlock()
	return step(ctx, "stop the real node", c.stopNode)
}

func newNodeImportCommand() *cobra.Command {
	return newNodeItemsCommand("import image...", "Give the real node images: archives, or folders that are OCI layouts", importImage)
}

func newNodeKillCommand() *cobra.Command {
	return newNodeItemsCommand("kill container...", "End containers at once; ids are as in the status of a pod",
		func(ctx context.Context, l layout, name, id string, _ io.Writer) error {
			return killContainer(ctx, l, name, id)
		})
}

// newNodeItemsCommand makes a verb that does something to a node for each of its arguments.
func newNodeItemsCommand(use, short string, do func(ctx context.Context, l layout, name, item string, out io.Writer) error) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, items []string) error {
			if err := validateName(name); err != nil {
				return err
			}
			l, err := newLayout()
			if err != nil {
				return err
			}
			for _, item := range items {
				if err := do(cmd.Context(), l, name, item, cmd.OutOrStdout()); err != nil {
					return err
				}
			}
			return nil
		},
	}
	addNameFlag(cmd, &name)
	return cmd
}

func newNodeCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Say whether this machine can run a real node, and if not, why",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := newLayout()
			if err != nil {
				return err
			}
			if _, err := checkNode(cmd.Context(), l); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "this machine can run a real node")
			return err
		},
	}
}

// newNodeInitCommand makes the verb that is the first process of a node. Only startNode uses it.
func newNodeInitCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "init directory",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return nodeInit(cmd.Context(), args[0])
		},
	}
}

// newNodeTrialCommand makes the verb that makes a network and runs one container. Only tryContainer uses it.
func newNodeTrialCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "trial directory runc nft",
		Hidden: true,
		Args:   cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			return nodeTrial(cmd.Context(), args[0], args[1], args[2])
		},
	}
}
