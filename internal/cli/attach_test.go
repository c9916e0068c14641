package cli

import (
	"slices"
	"strings"
	"testing"
)

// configmap-attacher is called with one dash.
func TestSpelledOut(t *testing.T) {
	tests := map[string]struct{ args, want string }{
		"configmap-attacher's":  {"attach -rollout web -namespace prod -configmaps a,b", "attach --rollout web --namespace prod --configmaps a,b"},
		"with values behind =":  {"attach -rollout=web", "attach --rollout=web"},
		"as they are":           {"attach --rollout web -n prod -l a=b", "attach --rollout web -n prod -l a=b"},
		"a value is no flag":    {"attach --deployment rollout", "attach --deployment rollout"},
		"of other verbs":        {"status -rollout", "status -rollout"},
		"nothing":               {"", ""},
		"a flag of another one": {"attach -timeout 1s", "attach -timeout 1s"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := spelledOut(strings.Fields(test.args)); !slices.Equal(got, strings.Fields(test.want)) {
				t.Errorf("got %q", got)
			}
		})
	}
}
