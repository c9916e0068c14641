package plugin

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"confrev.io/confrev/internal/plugin/session"
)

// shortUsage makes cobra's template for help leave out kubectl's flags of connection, as kubectl does: they are the same for
// all verbs, and more than most have of their own.
var shortUsage = strings.NewReplacer(
	".HasAvailableLocalFlags", ".LocalNonPersistentFlags.HasAvailableFlags",
	".LocalFlags.FlagUsages", ".LocalNonPersistentFlags.FlagUsages",
	"Global Flags:\n{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}",
	`"kubectl confrev options" lists the flags of kubectl that all commands take.`,
)

func newOptions(p *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:     "options",
		Short:   "List the flags of kubectl that all commands take",
		Example: session.Examples(`kubectl confrev options`),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(p.Out, cmd.InheritedFlags().FlagUsages())
			return err
		},
	}
}
