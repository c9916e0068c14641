package pin_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"confrev.io/confrev/internal/pin"
)

// parsers read what anyone may have written into an annotation.
var parsers = map[string]func(string) error{
	"pins":   func(text string) error { _, err := pin.Parse(text); return err },
	"hashes": func(text string) error { _, err := pin.ParseHashes(text); return err },
	"notes":  func(text string) error { _, err := pin.ParseNotes(text); return err },
	"source": func(text string) error { _, err := pin.ParseSource(text); return err },
}

// Rule 19: an error repeats at most the beginning of what was written, and nothing that a terminal or a log would act on.
func TestErrorsAreShortAndPlain(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	digits := strings.Repeat("9", 100_000)
	texts := []string{
		long, "\x1b[31m" + long, "configmap/" + long + "=" + long + "@1", "configmap/app=app-5f7d8c9b2k@" + digits,
		"configmap/app=app-5f7d8c9b2k@999999999999999999",
		"configmap/" + long + "=a@1,configmap/" + long + "=a@1", "widgets/" + long + "=a@1,widgets/" + long + "=a@1",
		"configmap/" + long + "=a@1;on=b@1,configmap/" + long + "=a@1;on=b@1", "configmap/a=b@1;on=c@" + digits, "configmap/a=b@1;on=\x1b" + long,
	}
	check := func(t interface{ Errorf(string, ...any) }, what, text string, err error) {
		if err == nil {
			return
		}
		said := err.Error()
		if len(said) > 600 || strings.ContainsFunc(said, func(r rune) bool { return r < ' ' || r > '~' && r != '…' }) {
			t.Errorf("the error of %s about %.60q has %d bytes: %.200q", what, text, len(said), said)
		}
	}
	for what, parse := range parsers {
		failed := false
		for _, text := range texts {
			err := parse(text)
			failed = failed || err != nil
			check(t, what, text, err)
		}
		if !failed {
			t.Errorf("no text is an error as %s", what)
		}
	}
	if t.Failed() {
		return
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`(configmap/[a-z]{0,3}=[a-z]{0,3}@[0-9]{0,20};on=.{0,300},?){0,3}`)).Draw(t, "text")
		for what, parse := range parsers {
			check(t, what, text, parse(text))
		}
	})
}
