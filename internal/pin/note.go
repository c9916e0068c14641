package pin

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"confrev.io/confrev/internal/quote"
)

// Note records that a workload was rolled back from one content of a source (rule 4). An old note may come back: the Deployment
// controller copies annotations to ReplicaSets, and `kubectl rollout undo` restores them from there. So each note names the pin
// that it is about, and has no meaning with another pin.
type Note struct {
	// From is the pin that the workload was rolled back from.
	From Pin
	// On is the template's pin at that time.
	On Pin
	// Keys is a digest of what the workload used of From (content.Digests.Sum); it is empty if From itself is a digest. Once
	// From is deleted, it shows whether the source still has that content.
	Keys string
	// Ended is true if the hold has ended although the pin is the same. From, and everything that was rolled out before it, is then
	// no longer evidence of a rollback.
	Ended bool
}

// Notes are the notes of one workload. Nil Notes read as empty.
type Notes map[Source]Note

// noteForm is one note, about a pin or a hash.
var noteForm = regexp.MustCompile(
	`^([a-z][a-z0-9.-]*/[^/=@,;\s]+=[a-z0-9][a-z0-9.-]*@[1-9][0-9]{0,14});on=([a-z0-9][a-z0-9.-]*)@([1-9][0-9]{0,14})(?:;keys=([a-z0-9-]+))?(;ended)?$`)

// ParseNotes reads the text form: SOURCE=REVISION@NUMBER;on=REVISION@NUMBER;keys=DIGEST;ended, separated by commas. The last two
// parts are optional. ParseNotes returns an error, which quotes the faulty note, if one is malformed. No part of such a text is
// trusted.
func ParseNotes(text string) (Notes, error) {
	notes := Notes{}
	if text == "" {
		return notes, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		match := noteForm.FindStringSubmatch(item)
		if match == nil {
			return nil, fmt.Errorf("%s is not a note: want SOURCE=REVISION@NUMBER;on=REVISION@NUMBER", quote.Text(item))
		}
		from, err := ParseHashes(match[1])
		if err != nil {
			return nil, err
		}
		number, err := strconv.ParseInt(match[3], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s has an invalid number", quote.Text(item))
		}
		for source, p := range from {
			if _, twice := notes[source]; twice {
				return nil, fmt.Errorf("%s has more than one note", quote.Text(source.String()))
			}
			notes[source] = Note{From: p, On: Pin{Revision: match[2], Number: number}, Keys: match[4], Ended: match[5] != ""}
		}
	}
	return notes, nil
}

// String returns the text form, sorted, so that equal notes have equal texts.
func (n Notes) String() string {
	items := make([]string, 0, len(n))
	for source, note := range n {
		item := source.String() + "=" + note.From.String() + ";on=" + note.On.String()
		if note.Keys != "" {
			item += ";keys=" + note.Keys
		}
		if note.Ended {
			item += ";ended"
		}
		items = append(items, item)
	}
	slices.Sort(items)
	return strings.Join(items, ",")
}

// Holding returns the pins that the workload is held from, by source. It uses the notes that are about the given pins and whose
// holds have not ended.
func (n Notes) Holding(pins Set) Set {
	holding := Set{}
	for source, note := range n {
		if !note.Ended && note.On == pins[source] {
			holding[source] = note.From
		}
	}
	return holding
}
