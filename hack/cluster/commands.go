package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "cluster",
		Short:         "Real Kubernetes control planes on this machine, for tests and demos",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newUpCommand(), newListCommand(), newBuildCommand(), newPathCommand(), newNodeCommand(),
		newNamedCommand("down", "Stop a cluster and remove its data; fine if there is none", down),
		newFileCommand("kubeconfig", "Print the path of a cluster's kubeconfig", layout.kubeconfig),
		newFileCommand("audit-log", "Print the path of a cluster's audit log", layout.auditLog))
	return root
}

func newUpCommand() *cobra.Command {
	options := upOptions{}
	var minor string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Build what is missing, then create or start a cluster and wait until it works",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			options.nodesGiven = cmd.Flags().Changed("nodes")
			if options.kubernetes, err = kubernetesByMinor(minor); err != nil {
				return err
			}
			if err := options.validate(); err != nil {
				return err
			}
			l, err := newLayout()
			if err != nil {
				return err
			}
			return up(cmd.Context(), l, options, cmd.OutOrStdout())
		},
	}
	addNameFlag(cmd, &options.name)
	cmd.Flags().IntVar(&options.nodes, "nodes", 3, "number of simulated nodes, 0 for the real one only; an existing cluster changes only if given")
	cmd.Flags().IntVar(&options.port, "port", 0, "port of a new cluster's API server (0: a free one)")
	cmd.Flags().StringVar(&minor, "kubernetes", defaultKubernetes.minor, "version of the control plane: "+kubernetesMinors())
	cmd.Flags().BoolVar(&options.rollouts, "argo-rollouts", false, "also run the Argo Rollouts controller")
	cmd.Flags().BoolVar(&options.realNode, "real-node", false, "also run a real node, with a kubelet and containers (Linux, root)")
	return cmd
}

func newListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the clusters and whether they run",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := newLayout()
			if err != nil {
				return err
			}
			return list(l, cmd.OutOrStdout())
		},
	}
}

func newBuildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build [component...]",
		Short: "Build components (without arguments: all of them)",
		Long:  "Build components (without arguments: all of them): " + strings.Join(componentNames(), ", ") + ".",
		RunE: func(cmd *cobra.Command, names []string) error {
			l, err := newLayout()
			if err != nil {
				return err
			}
			if len(names) == 0 {
				names = componentNames()
			}
			return ensure(cmd.Context(), l, names...)
		},
	}
}

func newPathCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "path component",
		Short: "Print the path of a component's binary, built if need be",
		Long: "Print the path of a component's binary, built if need be (progress goes to stderr). Components: " +
			strings.Join(componentNames(), ", ") + ". From Debian's packages: nft, prometheus, promtool, runc.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := newLayout()
			if err != nil {
				return err
			}
			path, err := programPath(cmd.Context(), l, args[0])
			if err == nil && path == "" {
				path, err = builtPath(cmd.Context(), l, args[0])
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), path)
			return err
		},
	}
}

// builtPath builds a component if need be, and returns the path of its binary.
func builtPath(ctx context.Context, l layout, component string) (string, error) {
	if err := ensure(ctx, l, component); err != nil {
		return "", err
	}
	return l.binary(component)
}

// newFileCommand makes a verb that prints the path of one of a cluster's files.
func newFileCommand(verb, short string, path func(layout, string) string) *cobra.Command {
	return newNamedCommand(verb, short, func(cmd *cobra.Command, l layout, name string) error {
		if !l.exists(name) {
			return fmt.Errorf("there is no cluster %q: create it with '%s up --name %s'", name, project.command, name)
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), path(l, name))
		return err
	})
}

// newNamedCommand makes a verb about the cluster that --name names.
func newNamedCommand(verb, short string, do func(cmd *cobra.Command, l layout, name string) error) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   verb,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := validateName(name); err != nil {
				return err
			}
			l, err := newLayout()
			if err != nil {
				return err
			}
			return do(cmd, l, name)
		},
	}
	addNameFlag(cmd, &name)
	return cmd
}

func addNameFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "name", project.name, "name of the cluster")
}
