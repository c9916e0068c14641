package quote_test

import (
	"strings"
	"testing"
	"unicode"

	"confrev.io/confrev/internal/quote"
)

// Rule 19.
func TestText(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"plain":                  {"configmap/app", `"configmap/app"`},
		"quotes":                 {`a"b`, `"a\"b"`},
		"a terminal's escape":    {"\x1b[31mred", `"\x1b[31mred"`},
		"a new line":             {"a\nb", `"a\nb"`},
		"text that runs back":    {"a\u202eb", `"a\u202eb"`},
		"as long as it may be":   {strings.Repeat("a", quote.MaxLength), `"` + strings.Repeat("a", quote.MaxLength) + `"`},
		"longer":                 {strings.Repeat("a", quote.MaxLength) + "tail", `"` + strings.Repeat("a", quote.MaxLength) + `"…`},
		"cut within a character": {strings.Repeat("a", quote.MaxLength-1) + "ü", `"` + strings.Repeat("a", quote.MaxLength-1) + `\xc3"…`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := quote.Text(test.text); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\x00b\u2028c\xff")
	f.Fuzz(func(t *testing.T, text string) {
		got := strings.TrimSuffix(quote.Text(text), "…")
		if len(got) > 10*quote.MaxLength+2 {
			t.Errorf("%d bytes", len(got))
		}
		for _, r := range got {
			if r > unicode.MaxASCII || !unicode.IsPrint(r) {
				t.Errorf("%q is in %q", r, got)
			}
		}
	})
}
