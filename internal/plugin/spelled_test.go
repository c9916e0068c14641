package plugin

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
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
		"behind other flags":    {"-n x --context=c attach -rollout web", "-n x --context=c attach --rollout web"},
		"before the verb too":   {"-namespace x attach -rollout web", "--namespace x attach --rollout web"},
		"a value that is it":    {"-n attach status -rollout", "-n attach status -rollout"},
		"a switch has no value": {"--insecure-skip-tls-verify attach -rollout=web", "--insecure-skip-tls-verify attach --rollout=web"},
		"a flag of another one": {"attach -timeout 1s", "attach -timeout 1s"},
	}
	flags := Command(genericiooptions.IOStreams{}).PersistentFlags()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := spelledOut(strings.Fields(test.args), flags); !slices.Equal(got, strings.Fields(test.want)) {
				t.Errorf("got %q", got)
			}
		})
	}
}
