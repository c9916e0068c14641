package optin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
)

// Rules 40, 41 and 43: what a workload says about when it fails, and what counts in place of what cannot be read.
func TestWhenAWorkloadFails(t *testing.T) {
	type read struct {
		Deadline time.Duration
		Crashes  int
		Analysis []string
		Invalid  bool
	}
	for name, test := range map[string]struct {
		own, namespace map[string]string
		want           read
		wrong          string
	}{
		"nothing":                 {},
		"a deadline":              {own: map[string]string{keys.Deadline: "5m"}, want: read{Deadline: 5 * time.Minute}},
		"no time":                 {own: map[string]string{keys.Deadline: "soon"}, wrong: "annotation confrev.io/deadline: "},
		"crashes":                 {own: map[string]string{keys.Crashes: "3"}, want: read{Crashes: 3}},
		"one crash":               {own: map[string]string{keys.Crashes: "1"}, want: read{Crashes: 1}},
		"no crash at all":         {own: map[string]string{keys.Crashes: "0"}, wrong: `annotation confrev.io/crashes: "0" is not a number of crashes, such as 2; the default counts`},
		"no number of crashes":    {own: map[string]string{keys.Crashes: "few"}, wrong: "annotation confrev.io/crashes: "},
		"too many crashes":        {own: map[string]string{keys.Crashes: "9999999999"}, wrong: "annotation confrev.io/crashes: "},
		"analyses":                {own: map[string]string{keys.Analysis: "smoke,load"}, want: read{Analysis: []string{"smoke", "load"}}},
		"those of the namespace":  {namespace: map[string]string{keys.Analysis: "smoke"}, want: read{Analysis: []string{"smoke"}}},
		"its own come first":      {own: map[string]string{keys.Analysis: "load"}, namespace: map[string]string{keys.Analysis: "smoke"}, want: read{Analysis: []string{"load"}}},
		"no name of an analysis":  {own: map[string]string{keys.Analysis: "Smoke Test"}, want: read{Invalid: true}, wrong: "annotation confrev.io/analysis: "},
		"nor in the namespace":    {namespace: map[string]string{keys.Analysis: "-"}, want: read{Invalid: true}, wrong: "annotation confrev.io/analysis of the namespace: "},
		"one mistake, all others": {own: map[string]string{keys.Deadline: "5m", keys.Crashes: "x"}, want: read{Deadline: 5 * time.Minute}, wrong: "annotation confrev.io/crashes: "},
	} {
		t.Run(name, func(t *testing.T) {
			c := optin.Read(optin.Metadata{Annotations: test.own, NamespaceAnnotations: test.namespace}, optin.Defaults{})
			if diff := cmp.Diff(test.want, read{c.Deadline, c.Crashes, c.Analysis, c.InvalidAnalysis}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			switch {
			case test.wrong == "" && len(c.Problems) > 0:
				t.Errorf("problems %v", c.Problems)
			case test.wrong != "" && (len(c.Problems) != 1 || c.Problems[0].Reason != optin.InvalidSpreading || !strings.HasPrefix(c.Problems[0].Text, test.wrong)):
				t.Errorf("problems %v", c.Problems)
			}
		})
	}
}
