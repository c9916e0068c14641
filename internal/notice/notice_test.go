package notice

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// most is how long a text may be in these tests.
const most = 1024

// A note quotes what users wrote in annotations, in any language; a cut in the middle of a character is not UTF-8, which
// protobuf and JSON do not carry.
func TestALongNoteIsNotCutWithinACharacter(t *testing.T) {
	for lead := range 4 {
		if note := Cut(strings.Repeat("x", lead)+strings.Repeat("€", 2000), most); !utf8.ValidString(note) {
			t.Errorf("after %d other characters the cut is not at the end of one: …%q", lead, note[len(note)-6:])
		}
	}
}

func TestCutKeepsAShortText(t *testing.T) {
	long := strings.Repeat("x", 5000)
	if got := Cut(long, most); len(got) > most || !strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-5:])
	}
	for _, note := range []string{"", "short", long[:most]} {
		if got := Cut(note, most); got != note {
			t.Errorf("%d bytes became %d", len(note), len(got))
		}
	}
}
