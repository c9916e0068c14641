package inspect

import (
	"testing"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/view"
)

func TestChangesInALine(t *testing.T) {
	for name, test := range map[string]struct {
		before, after content.Digests
		want          string
	}{
		"nothing":               {content.Digests{"a": "1"}, content.Digests{"a": "1"}, "-"},
		"of each sort":          {content.Digests{"a": "1", "b": "1"}, content.Digests{"a": "2", "c": "1"}, "+c -b ~a"},
		"the first":             {nil, content.Digests{"b": "1", "a": "1"}, "+a +b"},
		"more than a line has":  {nil, content.Digests{"a": "", "b": "", "c": "", "d": "", "e": ""}, "+a +b +c +2 more"},
		"just what a line has":  {nil, content.Digests{"a": "", "b": "", "c": ""}, "+a +b +c"},
		"an empty one after it": {content.Digests{"a": "1"}, nil, "-a"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := changesText(view.Compare(test.before, test.after)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
