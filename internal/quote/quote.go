// Package quote makes text that a user wrote safe to repeat in a message that others read: quoted, short, and without anything that
// a terminal or a log would interpret. It is only for text that is meant for confrev, such as an item of an annotation or a flag. The
// content of objects is never repeated (rule 19).
package quote

import "strconv"

// MaxLength is the number of bytes of a text that are repeated.
const MaxLength = 64

// Text returns the first MaxLength bytes of a text in double quotes, with everything escaped that is not printable ASCII.
func Text(text string) string {
	if len(text) <= MaxLength {
		return strconv.QuoteToASCII(text)
	}
	// A character that is cut in two is escaped like any other invalid byte.
	return strconv.QuoteToASCII(text[:MaxLength]) + "…"
}
