package printer

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// screen shows text to people. Annotations, names and messages may be written by people that the reader does not trust, so
// nothing that passes through it reaches the terminal as a control sequence. All streams of the plugin are screens; what must
// not be changed, such as rendered manifests and JSON, is written to what is behind one (raw).
type screen struct{ out io.Writer }

func (s screen) Write(text []byte) (int, error) {
	if _, err := io.WriteString(s.out, Escaped(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Screened returns streams on which nothing but plain text appears.
func Screened(streams genericiooptions.IOStreams) genericiooptions.IOStreams {
	streams.Out, streams.ErrOut = screen{Raw(streams.Out)}, screen{Raw(streams.ErrOut)}
	return streams
}

// Raw returns what is behind a screen.
func Raw(out io.Writer) io.Writer {
	if s, is := out.(screen); is {
		return s.out
	}
	return out
}

// Escaped replaces what a terminal would obey or hide, as Go writes it in quotes: "\x1b". Lines and tabs stay.
func Escaped(text string) string {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, obeyed) {
		var plain strings.Builder
		for i, r := range text {
			_, size := utf8.DecodeRuneInString(text[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				fmt.Fprintf(&plain, `\x%02x`, text[i])
			case !obeyed(r):
				plain.WriteRune(r)
			case r < 0x80:
				fmt.Fprintf(&plain, `\x%02x`, r)
			default:
				fmt.Fprintf(&plain, `\u%04x`, r)
			}
		}
		return plain.String()
	}
	return text
}

// obeyed reports whether a terminal may act on a character rather than show it: controls, and those that change the direction of
// the text after them.
func obeyed(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
}

// OneLine keeps what others wrote from looking like a line of the plugin's own.
func OneLine(text string) string {
	return strings.ReplaceAll(text, "\n", "; ")
}
