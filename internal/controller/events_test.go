package controller

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A note quotes what users wrote in annotations, in any language; a cut in the middle of a character is not UTF-8, which
// protobuf and JSON do not carry.
func TestALongNoteIsNotCutWithinACharacter(t *testing.T) {
	for lead := range 4 {
		if note := shortened(strings.Repeat("x", lead) + strings.Repeat("€", 2000)); !utf8.ValidString(note) {
			t.Errorf("after %d other characters the cut is not at the end of one: …%q", lead, note[len(note)-6:])
		}
	}
}
