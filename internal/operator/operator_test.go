package operator_test

import (
	"bytes"
	"strings"
	"testing"

	"confrev.io/confrev/internal/operator"
)

func TestMistakesOnTheCommandLineAreNamed(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"a negative settle time":         {[]string{"--settle=-1s"}, "--settle=-1s: want 0 or more"},
		"a grace time that is too short": {[]string{"--grace=1s"}, "--grace=1s: want 5s or more"},
		"no workers":                     {[]string{"--workers=0"}, "--workers=0: want 1 or more"},
		"a lease without a place":        {[]string{"--leader-elect", "--namespace="}, "--leader-elect needs --namespace"},
		"an unknown log format":          {[]string{"--log-format=xml"}, "--log-format=xml: want text or json"},
		"an unknown log level":           {[]string{"--log-level=loud"}, "--log-level=loud: want debug, info, warn or error"},
		"a kubeconfig that is not there": {[]string{"--kubeconfig=/nonexistent"}, "find a cluster"},
		"an argument":                    {[]string{"run"}, `unknown command "run"`},
		"two mistakes at once":           {[]string{"--workers=0", "--grace=1s"}, "--workers=0"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := operator.Command()
			cmd.SetArgs(tt.args)
			cmd.SetOut(&bytes.Buffer{})
			err := cmd.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestHelpSaysWhatItIsForAndHowToRunIt(t *testing.T) {
	cmd := operator.Command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--help"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"confrev.io/track", "--kubeconfig", "--leader-elect", "Examples:"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %q:\n%s", want, out.String())
		}
	}
}
