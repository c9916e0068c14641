package printer

import (
	"bytes"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func TestAScreenShowsNoControlSequence(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext, größer\n":            "plain\ttext, größer\n",
		"\x1b]0;title\x07":                 `\x1b]0;title\x07`,
		"\x1b[2J\x1b[1;31mall is well":     `\x1b[2J\x1b[1;31mall is well`,
		"over\rwritten\b\b":                `over\x0dwritten\x08\x08`,
		"a C1 control: \u009b2J":           `a C1 control: \u009b2J`,
		"reversed: \u202egnp.exe":          `reversed: \u202egnp.exe`,
		"no UTF-8: \xff\x9b":               `no UTF-8: \xff\x9b`,
		"\x7f":                             `\x7f`,
		"the replacement character \ufffd": "the replacement character \ufffd",
	} {
		var out bytes.Buffer
		s := Screened(genericiooptions.IOStreams{Out: &out, ErrOut: &out})
		if n, err := s.Out.Write([]byte(text)); err != nil || n != len(text) {
			t.Errorf("wrote %d of %d, %v", n, len(text), err)
		}
		if out.String() != want {
			t.Errorf("%q is shown as %q, want %q", text, out.String(), want)
		}
	}
}
