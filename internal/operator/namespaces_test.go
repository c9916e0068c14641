package operator

import (
	"strings"
	"testing"

	"confrev.io/confrev/internal/rollout"
)

func TestReadinessInSingleNamespaces(t *testing.T) {
	for name, test := range map[string]struct {
		leads    bool
		handled  map[string]bool
		problems map[string]string
		want     string // part of the problem; "" for none
	}{
		"a replica that waits to lead":  {},
		"before anything is known":      {leads: true, want: "the caches of a, b have not caught up"},
		"one has not caught up":         {leads: true, handled: map[string]bool{"a": true}, want: "the caches of b have not"},
		"one of them cannot be handled": {leads: true, handled: map[string]bool{"a": true}, problems: map[string]string{"b": "gone"}},
		"none of them can be handled":   {leads: true, problems: map[string]string{"a": "gone", "b": "hidden"}, want: "no namespace is handled: a: gone; b: hidden"},
		"all of them are handled":       {leads: true, handled: map[string]bool{"a": true, "b": true}},
	} {
		n := &namespaces{
			options: Options{Options: rollout.Options{WatchNamespaces: []string{"a", "b"}}},
			leads:   test.leads, handled: test.handled, problems: test.problems,
		}
		if err := n.check(nil); (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
