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
	// Stop is the number of the stop because of which confrev itself rolled the workload back; 0 if someone else did (rule 40). Order is that of the
	// newest holder of From at that time, 0 if none showed it. A note that came back later has another.
	Stop  int
	Order int64
	// Ended is true if the hold has ended although the pin is the same. From, and everything that was rolled out before it, is then
	// no longer evidence of a rollback.
	Ended bool
}

// Notes are the notes of one workload. Nil Notes read as empty.
type Notes map[Source]Note

// noteForm is one note, about a pin or a hash.
var noteForm = regexp.MustCompile(
	`^([a-z][a-z0-9.-]*/[^/=@,;\s]+=[a-z0-9][a-z0-9.-]*@[1-9][0-9]{0,14});on=([a-z0-9][a-z0-9.-]*)@([1-9][0-9]{0,14})(?:;keys=([a-z0-9-]+))?(?:;stop=([1-9][0-9]{0,5})@([0-9]{1,19}))?(;ended)?$`)

// ParseNotes reads the text form: SOURCE=REVISION@NUMBER;on=REVISION@NUMBER;keys=DIGEST;stop=STOP@ORDER;ended, separated by commas. The
// last three parts are optional. ParseNotes returns an error, which quotes the faulty note, if one is malformed. No part of such a text is
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
		on, err := strconv.ParseInt(match[3], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s has an invalid number", quote.Text(item))
		}
		note := Note{On: Pin{Revision: match[2], Number: on}, Keys: match[4], Ended: match[7] != ""}
		if match[5] != "" {
			stop, stopErr := strconv.Atoi(match[5])
			order, orderErr := strconv.ParseInt(match[6], 10, 64)
			if stopErr != nil || orderErr != nil {
				return nil, fmt.Errorf("%s has an invalid number", quote.Text(item))
			}
			note.Stop, note.Order = stop, order
		}
		for source, p := range from {
			if _, twice := notes[source]; twice {
				return nil, fmt.Errorf("%s has more than one note", quote.Text(source.String()))
			}
			note.From = p
			notes[source] = note
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
		if note.Stop > 0 {
			item += fmt.Sprintf(";stop=%d@%d", note.Stop, note.Order)
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
