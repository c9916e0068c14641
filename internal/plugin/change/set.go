package change

import (
	"github.com/spf13/cobra"

	"confrev.io/confrev/internal/plugin/session"
)

// NewSet groups the verbs that set one thing of an object, as kubectl set does.
func NewSet(p *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "set SUBCOMMAND", Short: "Set the owner of a source, or the volumes of a workload",
		Example: session.Examples(`kubectl confrev set volume deployment/web`), Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSetOwner(p), newSetVolume(p))
	return cmd
}
