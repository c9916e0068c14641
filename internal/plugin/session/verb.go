package session

import (
	"context"

	"github.com/spf13/cobra"
)

// Verb is a command of the plugin.
type Verb interface {
	// Fill reads the arguments and flags. It asks the API server for no more than the names of its resources.
	Fill(cmd *cobra.Command, args []string) error
	// Run does what they say.
	Run(ctx context.Context) error
}

// Command lets a command run a verb.
func Command(cmd *cobra.Command, verb Verb) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := verb.Fill(cmd, args); err != nil {
			return err
		}
		return verb.Run(cmd.Context())
	}
	return cmd
}
