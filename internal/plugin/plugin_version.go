package plugin

import (
	"fmt"

	"github.com/spf13/cobra"

	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/version"
)

func newPluginVersion(p *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this plugin",
		Example: session.Examples(`kubectl confrev version`),
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.Out, version.String())
			return err
		},
	}
}
