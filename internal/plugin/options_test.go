package plugin

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// printed runs the plugin, which must succeed, and returns what it prints.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	if status := Run(t.Context(), streams, args); status != 0 {
		t.Fatalf("%s: status %d: %s", strings.Join(args, " "), status, errOut)
	}
	return out.String()
}

func TestHelpLeavesOutFlagsOfConnection(t *testing.T) {
	tests := map[string]struct {
		args   []string
		has    string
		hasNot string
	}{
		"of the plugin, with its groups":       {[]string{"--help"}, "Sources and volumes:\n  create ", "--kubeconfig"},
		"of the plugin, without completion":    {[]string{"--help"}, "Other:\n  help ", "completion"},
		"of a verb":                            {[]string{"undo", "--help"}, "--restore-source", "--kubeconfig"},
		"of a verb, which says where they are": {[]string{"undo", "--help"}, `"kubectl confrev options" lists the flags`, "Global Flags"},
		"of a verb with a namespace of its own": {
			[]string{"render", "--help"}, "Namespace of objects that name none", "--kubeconfig",
		},
		"but not what lists them": {[]string{"options"}, "--kubeconfig", "--help"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := printed(t, tt.args...)
			if !strings.Contains(got, tt.has) || strings.Contains(got, tt.hasNot) {
				t.Errorf("want %q and not %q:\n%s", tt.has, tt.hasNot, got)
			}
		})
	}
}

// The reference and the manual pages are made of these texts.
func TestEveryCommandHasItsTexts(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Short == "" || !strings.HasPrefix(cmd.Example, "  ") && cmd.HasParent() {
			t.Errorf("%s: short text %q, examples %q", cmd.CommandPath(), cmd.Short, cmd.Example)
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(Command(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}}))
}
