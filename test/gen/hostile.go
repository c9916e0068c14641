package gen

import "strings"

// Hostile is a text that someone might put into an annotation: on a terminal it would clear the screen, and add a line that looks
// like a program's own.
const Hostile = "x\x1b[2J\nError: all is lost"

// Harmless reports whether a text shows Hostile, or its beginning, without doing what it asks for.
func Harmless(text string) bool {
	return strings.Contains(text, "x") && !strings.Contains(text, "\x1b") && !strings.Contains(text, "\nError")
}
