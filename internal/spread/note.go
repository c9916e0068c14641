package spread

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/quote"
)

// Record is what the current revision of a source notes of its spread: what was decided and must not be decided again. It is void unless it
// names the object that it is on, by a UID that no one knows who creates it, and the number of the change. So it has no effect in a copy, in a
// backup, or once content is current again that was before. What raises the number while the content stays carries the record over.
type Record struct {
	// Revision is the UID of the revision, and Number is its number.
	Revision string `json:"revision"`
	Number   int64  `json:"number"`
	// Since is the number with which the content became current, if the number was raised while it stayed; 0 otherwise. The change is the same.
	Since int64 `json:"since,omitempty"`
	// Wave is the number of the last wave that has passed, and Passed is the place of its last member. Members come and go, and with them waves; a
	// place stays.
	Wave   int   `json:"wave"`
	Passed Place `json:"passed,omitzero"`
	// Proven is the place of the last member that is known to have vouched, and ProvenAt is when that was recorded, in seconds since 1970. Members up
	// to there that had the change then, other than those of Unproven, have vouched for it: whatever becomes of them later is no failure of the change.
	Proven   Place    `json:"proven,omitzero"`
	ProvenAt int64    `json:"provenAt,omitempty"`
	Unproven []string `json:"unproven,omitempty"`
	// Stops is how often the change was stopped because members failed, and Failed are those that have counted.
	Stops  int       `json:"stops,omitempty"`
	Failed []Failure `json:"failed,omitempty"`
	// Staged is true once the namespace that comes before has vouched for the change. Complete is true once this namespace has, and Version
	// is the source's version then.
	Staged   bool   `json:"staged,omitempty"`
	Complete bool   `json:"complete,omitempty"`
	Version  string `json:"version,omitempty"`
}

// Place is where a member stands in the order of all. The zero Place is before all.
type Place struct {
	Wave int    `json:"wave"`
	Name string `json:"name"`
}

func (m Member) place() Place { return Place{m.Wave, m.Name} }

// Compare orders places.
func (p Place) Compare(other Place) int {
	if p == (Place{}) || other == (Place{}) {
		return cmp.Compare(len(p.Name), len(other.Name))
	}
	return cmp.Or(cmp.Compare(p.Wave, other.Wave), cmp.Compare(p.Name, other.Name))
}

// last returns the later of two places.
func last(a, b Place) Place {
	if a.Compare(b) < 0 {
		return b
	}
	return a
}

// With returns the record with the waves of a spread that have passed by now.
func (r Record) With(s Spread, now time.Time) Record {
	passes := s.Passes()
	r.Wave, r.Passed = max(r.Wave, s.Left+passes), last(r.Passed, s.endOf(passes))
	return r.withVouches(s, now)
}

// maxUnproven is how many members a record names that have not vouched. Where more have not, it waits until waves pass.
const maxUnproven = 100

// withVouches returns the record with the members that have vouched, as far as that is known for all up to a place.
func (r Record) withVouches(s Spread, now time.Time) Record {
	proven := last(r.Proven, s.proven())
	news := proven != r.Proven
	var unproven []string
	for _, m := range s.Has() {
		switch {
		case m.place().Compare(proven) > 0 || m.Took.IsZero() || r.HasVouched(m):
		case m.Stage == Vouched:
			// It may have taken the change, and vouched, after the rest.
			news = true
		case m.isWaitedFor():
			unproven = append(unproven, m.Name)
		}
	}
	if news && len(unproven) <= maxUnproven {
		r.Proven, r.ProvenAt, r.Unproven = proven, now.Unix(), unproven
	}
	return r
}

// HasVouched reports whether a member with the change had vouched for it when that was recorded.
func (r Record) HasVouched(m Member) bool {
	return r.ProvenAt > 0 && !m.Took.IsZero() && m.Took.Unix() <= r.ProvenAt && m.place().Compare(r.Proven) <= 0 && !slices.Contains(r.Unproven, m.Name)
}

// Failure is one of a member, which it has with the change that it took at a time. If it takes the same change again, it may fail again.
type Failure struct {
	Member string
	// Took is when it took the change, in seconds since 1970; 0 where that was not recorded.
	Took int64
}

// MarshalText returns "deployment/web@1763900000". The error is always nil.
func (f Failure) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%s@%d", f.Member, f.Took), nil
}

// UnmarshalText reads what MarshalText returns. What was recorded by earlier versions has no time.
func (f *Failure) UnmarshalText(text []byte) error {
	member, took, timed := strings.Cut(string(text), "@")
	if f.Member = member; !timed {
		f.Took = 0
		return nil
	}
	var err error
	f.Took, err = strconv.ParseInt(took, 10, 64)
	return err
}

// FailedMembers returns the names of the members that have failed, sorted.
func (r Record) FailedMembers() []string {
	var names []string
	for _, failure := range r.Failed {
		names = append(names, failure.Member)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// First returns the number with which the content became current.
func (r Record) First() int64 { return cmp.Or(r.Since, r.Number) }

// Decides reports whether the record says anything that must not be decided again.
func (r Record) Decides() bool {
	return r.Wave > 0 || r.ProvenAt > 0 || r.Stops > 0 || r.Staged || r.Complete
}

// IsBehind reports whether another record of the same change has decided more: a record only ever moves forward.
func (r Record) IsBehind(other Record) bool {
	return other.Revision == r.Revision && other.Number == r.Number && (other.Wave > r.Wave || other.Passed.Compare(r.Passed) > 0 || other.ProvenAt > r.ProvenAt ||
		other.Stops > r.Stops || other.Staged && !r.Staged || other.Complete && !r.Complete)
}

// ParseRecord reads the text form. No part of such a text is trusted: a text that cannot be read is no record.
func ParseRecord(text string) (Record, bool) {
	var r Record
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Wave < 0 || r.Wave > maxNumber || r.Stops < 0 || r.Stops > maxNumber || r.Number < 1 || r.Since < 0 || r.Since > r.Number || r.Revision == "" {
		return Record{}, false
	}
	return r, true
}

func (f Failure) compare(other Failure) int {
	return cmp.Or(cmp.Compare(f.Member, other.Member), cmp.Compare(f.Took, other.Took))
}

// maxFailed is how many failures a record names: an annotation has limited room. Failures beyond that count again if the change is resumed.
const maxFailed = 200

// WithFailures returns the record with failures that have not counted yet, if they stop the change, or if it is stopped because of others.
// stops is how many stops hold it back now. counted are the failures that the record names from then on.
func (r Record) WithFailures(settings Settings, failures []Failure, stops int) (after Record, counted []Failure) {
	if stops == 0 && !settings.Stops(len(failures)) {
		return r, nil
	}
	counted = failures[:min(len(failures), max(0, maxFailed-len(r.Failed)))]
	if stops == 0 {
		r.Stops++
		counted = failures
	}
	again := func(earlier Failure) bool {
		return slices.ContainsFunc(counted, func(f Failure) bool { return f.Member == earlier.Member })
	}
	r.Failed = slices.Concat(slices.DeleteFunc(slices.Clone(r.Failed), again), counted)
	r.Failed = r.Failed[:min(len(r.Failed), maxFailed)]
	slices.SortFunc(r.Failed, Failure.compare)
	return r, counted
}

// String returns the text form.
func (r Record) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		// Strings and numbers always encode.
		panic("spread: a record does not encode: " + err.Error())
	}
	return string(text)
}

// Advance is what a workload notes of its latest advance to a source whose changes spread, and to all sources that moved together with it, also those
// whose changes do not spread: what ran before is all of them together (rule 40). It is void unless its pins are still those of the template: the
// Deployment controller copies annotations to ReplicaSets, and an undo restores them from there.
type Advance struct {
	// To are the pins that moved, and From those to go back to: what they were before, unless the workload never got well with that.
	To, From pin.Set
	// Earlier are the sources of To that moved before At, and with which the workload got well since.
	Earlier map[pin.Source]bool
	// At is when they moved, in whole seconds.
	At time.Time
	// Code is a digest of the code with which they moved, and Codes has those of Earlier that moved with other code.
	Code  string
	Codes map[pin.Source]string
	// Unwell is true if the workload was not healthy before.
	Unwell bool
}

type advanceText struct {
	To      string    `json:"to"`
	From    string    `json:"from"`
	Earlier []string  `json:"earlier,omitempty"`
	At      time.Time `json:"at"`
	Code    string    `json:"code,omitempty"`
	Unwell  bool      `json:"unwell,omitempty"`
	// Codes has them by the text of the source.
	Codes map[string]string `json:"codes,omitempty"`
}

// ParseAdvance reads the text form. What cannot be read is no note.
func ParseAdvance(text string) (Advance, bool) {
	if text == "" {
		return Advance{}, false
	}
	var read advanceText
	if err := json.Unmarshal([]byte(text), &read); err != nil {
		return Advance{}, false
	}
	to, toErr := pin.Parse(read.To)
	from, fromErr := pin.Parse(read.From)
	a := Advance{To: to, From: from, At: read.At, Code: read.Code, Unwell: read.Unwell}
	for source := range to {
		if slices.Contains(read.Earlier, source.String()) {
			a.note(source)
		}
		a.with(source, cmp.Or(read.Codes[source.String()], read.Code))
	}
	return a, toErr == nil && fromErr == nil
}

func (a *Advance) note(earlier pin.Source) {
	if a.Earlier == nil {
		a.Earlier = map[pin.Source]bool{}
	}
	a.Earlier[earlier] = true
}

// CodeOf returns the digest of the code with which a source moved.
func (a Advance) CodeOf(source pin.Source) string { return cmp.Or(a.Codes[source], a.Code) }

// with notes the code with which a source moved.
func (a *Advance) with(source pin.Source, code string) {
	if code == a.Code {
		return
	}
	if a.Codes == nil {
		a.Codes = map[pin.Source]string{}
	}
	a.Codes[source] = code
}

// Keep adds what an earlier note says of sources that have not moved again since: they may still be in the middle of it. settled is true if the workload
// was well in between, so that they did not move together with those of the later note.
func (a *Advance) Keep(before Advance, pins pin.Set, settled bool) {
	for source, p := range before.To {
		if _, again := a.To[source]; again || pins[source] != p {
			continue
		}
		a.To[source] = p
		if from, noted := before.From[source]; noted {
			a.From[source] = from
		}
		if settled || before.Earlier[source] {
			a.note(source)
		}
		a.with(source, before.CodeOf(source))
	}
}

// Back returns the pins to which a workload goes back from a change to a source: its own, and those of all that moved together with it, or since.
func (a Advance) Back(source pin.Source) pin.Set {
	back := pin.Set{}
	for moved, from := range a.From {
		if a.Earlier[source] || !a.Earlier[moved] {
			back[moved] = from
		}
	}
	return back
}

// String returns the text form.
func (a Advance) String() string {
	var earlier []string
	for source := range a.Earlier {
		earlier = append(earlier, source.String())
	}
	slices.Sort(earlier)
	codes := map[string]string{}
	for source, code := range a.Codes {
		codes[source.String()] = code
	}
	text, err := json.Marshal(advanceText{a.To.String(), a.From.String(), earlier, a.At.UTC().Truncate(time.Second), a.Code, a.Unwell, codes})
	if err != nil {
		// Only a time far out of range does not encode.
		return ""
	}
	return string(text)
}

// The forms of confrev.io/passed and confrev.io/resume: a revision with its number, as in a pin, and a number. Content that is current again after
// other content was has another number: what a person decided before says nothing about it.
const (
	passedForm = ";wave="
	resumeForm = ";stop="
)

// ParsePassed reads confrev.io/passed: the revision whose first waves a person lets pass, as a pin, and how many. No waves are passed where only
// the stage before is.
func ParsePassed(text string) (of string, waves int, err error) {
	return parseNumbered(text, passedForm, "waves", "app-5f7d8c9b2k@3;wave=2", 0)
}

// Passed returns the text form of confrev.io/passed.
func Passed(of pin.Pin, waves int) string { return of.String() + passedForm + strconv.Itoa(waves) }

// ParseResume reads confrev.io/resume: the revision that a person lets continue, as a pin, and how many stops because of failures that ends.
func ParseResume(text string) (of string, stops int, err error) {
	return parseNumbered(text, resumeForm, "stops", "app-5f7d8c9b2k@3;stop=1", 1)
}

// Ended returns how many stops of a change confrev.io/resume ends. since is the number with which the change began: what a person decided under an
// earlier number of the same change still holds. What cannot be read, or is about another one, ends none.
func Ended(text string, change pin.Pin, since int64) int {
	of, stops, err := ParseResume(text)
	if err != nil {
		return 0
	}
	named, number, _ := strings.Cut(of, "@")
	if n, err := strconv.ParseInt(number, 10, 64); err != nil || named != change.Revision || n < since || n > change.Number {
		return 0
	}
	return stops
}

// Resume returns the text form of confrev.io/resume.
func Resume(of pin.Pin, stops int) string { return of.String() + resumeForm + strconv.Itoa(stops) }

func parseNumbered(text, form, what, example string, least int) (of string, n int, err error) {
	of, number, _ := strings.Cut(text, form)
	n, numberErr := strconv.Atoi(number)
	revision, ofNumber, _ := strings.Cut(of, "@")
	if _, err := strconv.ParseUint(ofNumber, 10, 63); revision == "" || err != nil || numberErr != nil || n < least || n > maxNumber {
		return "", 0, fmt.Errorf("%s is not a revision with its number and a number of %s, such as %s", quote.Text(text), what, example)
	}
	return of, n, nil
}
