// Package quote repeats what a user wrote in a message that others read: in quotes, short, and without anything that a terminal
// or a log would interpret. It is for text that belongs to confrev (an annotation's items, a flag). The content of any other
// object is never repeated (docs/reconcile.md, rule 19).
package quote

import "strconv"

// MaxLength is how many bytes of a text are repeated.
const MaxLength = 64

// Text returns the beginning of a text in double quotes, with everything escaped that is not printable ASCII.
func Text(text string) string {
	if len(text) <= MaxLength {
		return strconv.QuoteToASCII(text)
	}
	// A character that is cut in two is escaped like any other invalid byte.
	return strconv.QuoteToASCII(text[:MaxLength]) + "…"
}
